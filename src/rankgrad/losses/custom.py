"""Use any function or module as a loss. `as_loss` gives it the same interface as a loss that is made from a spec."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from rankgrad.custom_objects import (
    CUSTOM_PREFIX,
    CallSignature,
    check_callable,
    describe,
    on_one_line,
    only_described,
    own_copy,
)
from rankgrad.errors import bad_type, bad_value
from rankgrad.lists import ListInputs, Lists, as_lists, compute_dtype, to_flat
from rankgrad.losses.composed import WeightedSum, takes_weights
from rankgrad.losses.from_text import KNOWN, TextLoss, parse_loss
from rankgrad.spec import show

_FORMS = (
    "be a function of (scores, labels), (scores, labels, mask) or (scores, labels, offsets, reduction), in this order, "
    "and optionally of weights, or a function of (scores, batch)"
)
# Names that the training log uses: a parameter of a loss with such a name is logged as `loss.name`.
_RESERVED = ("epoch", "loss", "lr", "seconds", "judge_seconds", "warning")


def as_loss(loss: Any) -> TextLoss:
    """Make a loss from a spec, a function or a module. A module is copied; the parameters of the copy can be trained.

    The parameter names of the function determine the layout of the lists that the function receives:

    - `(scores, labels, *, offsets, reduction)`, like every loss of `rankgrad.losses`: flat lists.
    - `(scores, labels, mask)`: padded lists `(lists, n)`, with a boolean mask that is True for a document.
    - `(scores, labels)`: one list at a time, `(n,)`.
    - `(scores, batch)`: flat lists, with everything that the training knows about them, such as named columns: see
      `rankgrad.run.objective.Batch`. Only the training of a ranker can call such a function.

    The scores are the first argument, and the labels or the batch the second. The function returns one value per list.
    With padded lists and with a batch, it may also return a single value, the mean over the lists. A loss with a
    parameter `weights` also receives the weights of the documents, in the layout of the scores; without weights, it
    receives ones if the parameter has no default. The mean over the lists includes lists without a relevant document,
    which most losses of rankgrad leave out. A function of one list does not work inside of `torch.compile` and
    `torch.func`; one with a mask does.

    Args:
        loss: a spec, a function, `functools.partial`, an `nn.Module` or any other callable object.

    Example:
        >>> def squares(scores, labels):
        ...     return (scores - labels).square().mean()
        >>> loss = as_loss(squares)
        >>> loss(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([1.0, 2.0, 0.0]), offsets=[0, 2, 3], reduction="none")
        tensor([0.5000, 4.0000])
    """
    if isinstance(loss, str):
        only_described("loss", loss)
        return parse_loss(loss)
    if isinstance(loss, TextLoss):
        found: TextLoss = own_copy("loss", loss)
        return found
    if isinstance(loss, type):
        _refuse_class(loss)
    check_callable("loss", loss, "a spec such as 'lambdaloss@5', a function or an nn.Module")
    name = _known_name(loss)
    return CustomLoss(loss) if name is None else parse_loss(name)


def loss_text(loss: Any) -> str:
    """Return the spec of a loss, or a description if the loss is custom and cannot be made from a spec.

    Args:
        loss: a spec, a function or a module; see `as_loss`.
    """
    if isinstance(loss, str | TextLoss):
        return str(loss)
    return _known_name(loss) or f"{CUSTOM_PREFIX}{_about(loss)}"


def weighted_sum(*terms: tuple[float, str | Callable[..., Tensor]]) -> WeightedSum:
    """Return the weighted sum of losses as one loss.

    Args:
        terms: pairs `(weight, loss)`. The weight is a finite number above 0. The loss is a spec, a function of
            `rankgrad.losses` (use `functools.partial` for options), or any function or module that `as_loss` takes.

    Example:
        >>> from rankgrad.losses import bce
        >>> loss = weighted_sum((0.7, "softmax"), (0.3, bce))
        >>> loss(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
        tensor(1.4342)
    """
    if not terms:
        bad_value("terms", "contain at least one pair (weight, loss)", "none")
    if len(terms) == 1 and isinstance(terms[0], list | tuple) and terms[0] and isinstance(terms[0][0], list | tuple):
        bad_type("terms", "be separate arguments, as in weighted_sum((0.7, 'softmax'), (0.3, bce))", "a list of pairs")
    return WeightedSum([_term(term) for term in terms])


def _term(term: Any) -> tuple[float, Callable[..., Tensor]]:
    if not isinstance(term, list | tuple) or len(term) != 2:
        bad_type("terms", "be pairs (weight, loss), as in weighted_sum((0.7, 'softmax'), (0.3, bce))", show(term))
    weight, loss = term
    if (isinstance(weight, str) or callable(weight)) and isinstance(loss, int | float):
        bad_type("terms", "be pairs (weight, loss), with the weight first", show(term))
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        bad_value("weight", "be a finite number above 0", show(weight))
    if isinstance(loss, str):
        loss = parse_loss(loss)
    if isinstance(loss, TextLoss):
        loss.only_joint("a weighted sum")
    if isinstance(loss, type):
        _refuse_class(loss)
    if not callable(loss):
        bad_type("loss", "be a spec, a function or a module", type(loss).__name__)
    if isinstance(loss, TextLoss) or _known_name(loss) is not None:
        return float(weight), loss
    # The loss is not copied: a sum has the same parameters as its terms.
    custom = CustomLoss(loss, copied=False)
    if custom.takes_batch:
        bad_value("loss", "be a function of scores and labels in a weighted sum", f"{custom}, which takes a batch")
    return float(weight), loss if custom.form == "flat" and custom._takes("mask") else custom


def _refuse_class(loss: type) -> NoReturn:
    bad_type("loss", f"be an object or a function, such as {loss.__name__}()", f"the class {loss.__name__}")


class CustomLoss(TextLoss):
    """A custom loss with the interface of `TextLoss`; `str(loss)` is only a description, not a spec."""

    def __init__(self, loss: Any, *, copied: bool = True) -> None:
        about = _about(loss)
        loss = own_copy("loss", loss) if copied else loss
        options = {}
        if isinstance(loss, functools.partial) and isinstance(loss.func, nn.Module) and not loss.args:
            loss, options = loss.func, dict(loss.keywords)  # so that the module's parameters are registered
        takes = CallSignature(loss.forward if isinstance(loss, nn.Module) else loss)
        super().__init__(f"{CUSTOM_PREFIX}{about}", loss, options, takes.signature is not None and takes_weights(loss))
        self.takes = takes
        owner = getattr(loss, "__self__", None)
        if inspect.ismethod(loss) and isinstance(owner, nn.Module):
            self.owner = owner
        self.form = self._form(about)
        self.takes_weights |= self.takes_batch

    def _form(self, about: str) -> str:
        takes = self.takes
        flat = "offsets" in takes.named or (takes.any and "mask" not in takes.named)
        batch = takes.signature is not None and [*takes.signature.parameters][1:2] == ["batch"]
        form = "batch" if batch else "flat" if flat else "padded" if "mask" in takes.named else "list"
        given: tuple[str, ...] = {"flat": ("offsets", "reduction"), "padded": ("mask", "reduction")}.get(form, ())
        given += ("weights",) if self.takes_weights and not batch else ()
        if takes.swapped or not takes.fits(2, *(name for name in given if self._takes(name)), *self.options):
            bad_value("loss", _FORMS, f"{about}{takes}")
        return form

    @property
    def takes_batch(self) -> bool:  # type: ignore[override]
        """True for a function of the scores and the batch of a training."""
        return self.form == "batch"

    @property
    def packaged(self) -> bool:
        """True if the custom loss contains no code of the caller. The code of this package never waits for a GPU."""
        return self.form == "flat" and _packaged(self.function)

    def forward(self, scores: Any, labels: Any, *, reduction: str = "mean", **lists: Any) -> Tensor:
        """Compute the custom loss; every loss takes these arguments."""
        if self.takes_batch:
            return self._of_batch(scores, lists.get("batch"), reduction)
        if lists.get("weights") is not None and not self.takes_weights:
            bad_value("weights", f"be None for {self}, which takes no weights", "weights")
        layout = lists.get("offsets") is not None or self._takes("mask")
        if self.form == "flat" and reduction != "none" and layout and self._takes("reduction"):
            return self._call(scores, labels, **lists, reduction=reduction)
        found = as_lists(scores, labels, **lists, allow_single=True)
        values = {"flat": self._flat, "padded": self._padded, "list": self._each}[self.form](found)
        return found.reduce(self._in_graph(values, found.given.scores), reduction)

    def learned(self) -> dict[str, float]:
        """Return the learned values of the custom loss by name.

        If a module in the loss has a method `learned`, its result is used; otherwise, all trainable scalar parameters.
        """
        if not (found := super().learned()):
            named = ((name.partition(".")[2], value) for name, value in self.named_parameters())
            found = {name: float(value.detach()) for name, value in named if value.requires_grad and value.numel() == 1}
        found = {str(name): float(value) for name, value in found.items()}
        return {f"loss.{name}" if name in _RESERVED else name: value for name, value in found.items()}

    def _of_batch(self, scores: Tensor, batch: Any, reduction: str) -> Tensor:
        if batch is None:
            bad_value(
                "loss", "be called by the training of a ranker if it takes a batch", f"lists without a batch in {self}"
            )
        scores = scores.to(compute_dtype(scores.dtype))
        values, expected = self._call(scores, batch), batch.offsets.shape[0] - 1
        if values.shape not in ((), (expected,)):
            self._wrong_shape(f"({expected},), or () for the mean,", scores, values)
        values = self._in_graph(values.expand(expected), scores)
        return values if reduction == "none" else values.sum()

    def _flat(self, lists: Lists) -> Tensor:
        scores, labels, mask, offsets, weights = lists.given
        shape = scores.shape[:-1]
        if offsets is None and not self._takes("mask"):
            scores, labels, mask, offsets, weights = _flattened(lists)
        values = self._call(scores, labels, mask=mask, offsets=offsets, weights=weights, reduction="none")
        expected = scores.shape[:-1] if offsets is None else (offsets.shape[0] - 1,)
        if values.shape != expected:
            self._wrong_shape(tuple(expected), scores, values)
        return values.reshape(values.shape if lists.given.offsets is not None else shape)

    def _padded(self, lists: Lists) -> Tensor:
        n, shape = lists.scores.shape[-1], lists.scores.shape[:-1]
        if lists.scores.numel() == 0:
            return lists.scores.sum(-1)  # 0 per list, in the graph
        scores, labels, mask = (part.reshape(-1, n) for part in (lists.scores, lists.labels, lists.mask))
        weights = None if lists.weights is None else lists.weights.reshape(-1, n)
        values = self._call(scores, labels, mask=mask, weights=weights, reduction="none")
        if values.shape not in ((), scores.shape[:1]):
            self._wrong_shape(f"{tuple(scores.shape[:1])}, or () for the mean,", scores, values)
        return values.expand(scores.shape[:1]).reshape(shape)

    def _each(self, lists: Lists) -> Tensor:
        scores, labels, _, offsets, weights = _flattened(lists)
        assert offsets is not None
        shape = offsets.shape[0] - 1 if lists.given.offsets is not None else lists.given.scores.shape[:-1]
        lengths = offsets.diff().tolist()
        if not lengths:
            return scores.new_zeros(shape) + scores.sum()
        parts_of_weights = [None] * len(lengths) if weights is None else weights.split(lengths)
        parts = zip(scores.split(lengths), labels.to(scores.dtype).split(lengths), parts_of_weights, strict=True)
        return torch.stack([self._of_one(*part) for part in parts]).reshape(shape)

    def _of_one(self, scores: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        if scores.shape[0] == 0:
            return scores.sum()  # 0, in the graph
        value = self._call(scores, labels, weights=weights)
        if value.numel() != 1:
            self._wrong_shape((), scores, value)
        return value.reshape(()).to(scores.dtype)

    def _call(self, scores: Any, labels: Any, **lists: Any) -> Tensor:
        """Call the custom loss with the arguments that it takes and that are not None."""
        given = {name: value for name, value in lists.items() if value is not None and self._takes(name)}
        if "weights" in self.takes.required and "weights" not in given:
            given["weights"] = torch.ones_like(scores)
        found = self.function(scores, labels, **self.options, **given)
        if not isinstance(found, Tensor):
            bad_type("loss", "return a tensor", f"{type(found).__name__} from {self}")
        return found

    def _takes(self, name: str) -> bool:
        return self.takes_weights if name == "weights" else name in self.takes.named or self.takes.any

    def _in_graph(self, values: Tensor, scores: Tensor) -> Tensor:
        """Connect the values of a custom loss to the autograd graph of the scores.

        Values without a gradient must be 0, the value of lists without signal.
        """
        if values.requires_grad or not scores.requires_grad or not torch.is_grad_enabled():
            return values
        if bool((values != 0).any()):
            bad_value("loss", "be differentiable with respect to the scores", f"values without a gradient from {self}")
        return values + 0.0 * scores.sum()

    def _wrong_shape(self, expected: object, scores: Tensor, values: Tensor) -> NoReturn:
        must = f"return one value per list: shape {expected} for scores of shape {tuple(scores.shape)}"
        bad_value("loss", must, f"shape {tuple(values.shape)} from {self}")


def _flattened(lists: Lists) -> ListInputs:
    """Return the lists in the flat layout, for a custom loss that takes `offsets` or one list at a time."""
    given = lists.given
    if given.offsets is not None:
        return given
    weights = None if given.weights is None else to_flat(given.weights, lists.mask)[0]
    scores, offsets = to_flat(given.scores, lists.mask)
    return ListInputs(scores, to_flat(given.labels, lists.mask)[0], None, offsets, weights)


def _known_name(loss: Any) -> str | None:
    """Return the name of a function of `rankgrad.losses`; None for other losses."""
    return next((name for name, known in KNOWN.items() if known is loss), None)


def _about(loss: Any) -> str:
    """Return the description of a custom loss; the description of a module includes its `extra_repr`."""
    extra = loss.extra_repr() if isinstance(loss, nn.Module) else ""
    return on_one_line(f"{describe(loss)}({extra})" if extra else describe(loss))


def _packaged(part: Any) -> bool:
    """Return True if the loss and all callables in the loss are code of this package or modules of PyTorch."""
    if isinstance(part, list | tuple):
        return all(map(_packaged, part))
    if isinstance(part, functools.partial):
        return _packaged(part.func)
    if not callable(part) or isinstance(part, type):
        return True
    module = getattr(part if inspect.isroutine(part) else type(part), "__module__", "") or ""
    if not isinstance(part, nn.Module):
        return module.startswith("rankgrad.")
    known = module.startswith(("rankgrad.", "torch.nn.modules."))
    return known and all(map(_packaged, [*part.children(), *vars(part).values()]))
