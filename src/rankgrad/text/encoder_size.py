"""Limits that keep a small file from becoming a large model: sizes in a configuration are compared with the tensors."""

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as registration

from rankgrad.errors import bad_value

_LARGEST = 10_000_000  # larger than every vocabulary; a count of this size still makes a list of 80 MB
_BUFFERS = 1 << 24  # numbers that are not weights, such as tables of positions
_SPARE = 64  # weights of a head and a pooler


def checked_numbers(config: Any, layers: int) -> None:
    """Check the whole numbers of a configuration, also in nested parts. Libraries make lists of these lengths.

    Args:
        config: content of a `config.json`. A larger number is changed to a float: it may be a frequency, never a size.
        layers: largest number of layers.
    """
    pairs = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in list(pairs):
        if isinstance(value, int) and not isinstance(value, bool):
            if isinstance(key, str) and "layer" in key and value > layers:
                bad_value(key, f"be at most {layers}, for a file of this size", value)
            if abs(value) > _LARGEST:
                config[key] = float(value)
        checked_numbers(value, layers)


class SizeLimit:
    """Inside the `with` block, a model that is built in this thread may not be much larger than the tensors of a file.

    The model may have twice as many numbers, because a new head or pooler may be missing in the file.

    Args:
        sizes: number of numbers in each tensor of the file.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.weights, self.numbers = 2 * len(sizes) + _SPARE, 2 * sum(sizes.values()) + _SPARE
        self.buffers = self.numbers + _BUFFERS
        self.thread = threading.get_ident()

    def __enter__(self) -> None:
        self.hooks = [
            registration.register_module_parameter_registration_hook(self._weight),
            registration.register_module_buffer_registration_hook(self._buffer),
        ]

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for hook in self.hooks:
            hook.remove()

    def _weight(self, _: nn.Module, name: str, weight: Tensor | None) -> None:
        if weight is None or threading.get_ident() != self.thread:
            return
        self.weights, self.numbers = self.weights - 1, self.numbers - weight.numel()
        if self.weights < 0 or self.numbers < 0:
            bad_value("the model of config.json", "have the size of the tensors in the files", "a larger model")

    def _buffer(self, _: nn.Module, name: str, buffer: Tensor | None) -> None:
        if buffer is None or threading.get_ident() != self.thread:
            return
        self.buffers -= buffer.numel()
        if self.buffers < 0:
            bad_value("the tables of config.json", "be in proportion to the tensors in the files", "larger tables")
