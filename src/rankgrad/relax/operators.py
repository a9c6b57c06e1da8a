"""Register functions of lists as PyTorch operators. `torch.compile` does not trace them, and `vmap` calls them once."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("rankgrad", "FRAGMENT")


def one_node() -> bool:
    """Return True if a relaxation must call its registered operator, which is one node of a compiled graph.

    This is the case if `torch.compile` traces this code and no transform of `torch.func` is active. A transform of
    `torch.func` must differentiate each step.
    """
    return torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def register(
    schema: str, function: Callable[..., Any], fake: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Register a step of a relaxation as a PyTorch operator, and return it. Leading dimensions of tensors are lists.

    Args:
        schema: name, arguments and results, as in `torch.library.define`; tensors come before all other arguments.
        function: function that computes the results; it must not change its arguments.
        fake: function of the same arguments that returns empty tensors of the right shapes.
        backward: operator that returns the gradient with respect to the first argument. Its inputs are the tensor
            arguments of `function`, the results, the gradients of the results, and the other arguments of `function`.
            None if the results have no gradient.
    """
    name = f"rankgrad::{schema.partition('(')[0]}"
    _library.define(schema)
    _library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(name, fake, lib=_library)
    operator: Callable[..., Any] = getattr(torch.ops.rankgrad, name.removeprefix("rankgrad::")).default

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = (output,) if isinstance(output, Tensor) else output
        ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)), *results)
        ctx.inputs = len(inputs)
        ctx.options = [value for value in inputs if not isinstance(value, Tensor)]

    def derivative(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        assert backward is not None
        return (backward(*ctx.saved_tensors, *upstream, *ctx.options), *(None,) * (ctx.inputs - 1))

    def batched(info: Any, dimensions: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        """Call the registered operator for `vmap`, with the dimension of `vmap` moved to the front, as more lists."""
        moved = []
        for argument, dimension in zip(arguments, dimensions, strict=True):
            if isinstance(argument, Tensor):
                shape = (info.batch_size, *argument.shape)
                argument = argument.expand(shape) if dimension is None else argument.movedim(dimension, 0)
            moved.append(argument)
        results = operator(*moved)
        return results, 0 if isinstance(results, Tensor) else (0,) * len(results)

    if backward is not None:
        torch.library.register_autograd(name, derivative, setup_context=remember, lib=_library)
    torch.library.register_vmap(name, batched, lib=_library)
    return operator
