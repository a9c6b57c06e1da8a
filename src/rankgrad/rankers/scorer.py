"""Base class of rankers, and checks of the options of rankers. A ranker computes one score per document."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from rankgrad.errors import bad_type, bad_value
from rankgrad.rankers.list_index import ListIndex

ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
}
# Functions that some rankers apply to the scores; NeuralNDCG's paper uses tanh.
OUTPUTS: Mapping[str, type[nn.Module]] = {"none": nn.Identity, "tanh": nn.Tanh}


class Scorer(nn.Module):
    """Base class of rankers. It converts flat and padded lists to rows; a subclass computes the scores of the rows."""

    model: ClassVar[str]  # name in a spec
    list_aware: ClassVar[bool] = False  # True if a document's score depends on the other documents of its list

    def __init__(self, features: int, **options: Any) -> None:
        super().__init__()
        self.features = whole_number("features", features)
        self._config = {"model": self.model, "features": self.features, **options}

    @property
    def config(self) -> dict[str, Any]:
        """Arguments of `rankers.build` that make the same architecture. All values can be written as JSON."""
        return copy.deepcopy(self._config)

    def forward(self, features: Tensor, offsets: Tensor, *, width: int | None = None) -> Tensor:
        """Return the scores of the ranker for flat lists, `(documents,)`.

        Args:
            features: `(documents, f)`. Rows from `offsets[-1]` on belong to no list: the scores of these rows have no
                meaning, and these rows do not change the scores of other rows.
            offsets: integers `(lists + 1,)` that start at 0 and do not decrease.
            width: length of the padded lists, at least the length of the longest list. With None, a list-aware ranker
                computes the length from `offsets`, and must wait for the GPU.
        """
        self._check(features, 2, "(documents, {})")
        if offsets.dim() != 1 or offsets.shape[0] == 0 or offsets.dtype.is_floating_point:
            bad_value("offsets", "be integers of shape (lists + 1,)", f"{tuple(offsets.shape)} of {offsets.dtype}")
        if offsets.device != features.device:
            bad_value("offsets", f"be on the device of features, {features.device}", offsets.device)
        index = ListIndex.flat(offsets.long(), features.shape[0], width, gathers=self.list_aware)
        return self.score(index.clean(features), index)

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's declaration returns Any

    def padded(self, features: Tensor, mask: Tensor) -> Tensor:
        """Return scores `(lists, n)` of padded lists, using the layers of `forward`. Exported models use this method.

        Args:
            features: `(lists, n, f)`; padding may have any values.
            mask: boolean `(lists, n)`, True for a document. The scores of padding are finite and have no meaning.
        """
        self._check(features, 3, "(lists, n, {})")
        if mask.dtype != torch.bool or mask.shape != features.shape[:2]:
            bad_value(
                "mask", f"be boolean, of shape {tuple(features.shape[:2])}", f"{tuple(mask.shape)} of {mask.dtype}"
            )
        index = ListIndex.padded(mask)
        return self.score(index.clean(features.flatten(0, 1)), index).view(mask.shape)

    @abstractmethod
    def score(self, rows: Tensor, index: ListIndex) -> Tensor:
        """Return the scores of the ranker for its rows, `(rows,)`.

        Args:
            rows: features, `(rows, f)`.
            index: positions of the rows in their lists.
        """

    def _check(self, features: Tensor, dims: int, shape: str) -> None:
        if features.dim() != dims or features.shape[-1] != self.features:
            bad_value("features", f"have shape {shape.format(self.features)}", tuple(features.shape))
        if not features.dtype.is_floating_point:
            bad_type("features", "be floating point", features.dtype)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Check that an option of a ranker is an integer of at least `least`, and return the integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        bad_value(name, f"be an integer, at least {least}", repr(value))
    return value


def whole_numbers(name: str, value: Any) -> list[int]:
    """Check that an option of a ranker is an integer or a list of integers, each at least 1. Return a list."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return [whole_number(name if len(values) == 1 else f"each value of {name}", each) for each in values]


def finite_number(name: str, value: Any, least: float = 0.0) -> float:
    """Check that an option of a ranker is a finite number of at least `least`, and return the number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        bad_value(name, f"be a finite number, at least {least:g}", repr(value))
    return value


def fraction(name: str, value: Any) -> float:
    """Check that an option of a ranker, such as `dropout`, is at least 0 and below 1. Return its value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        bad_value(name, "be a number, at least 0 and below 1", repr(value))
    return value


def boolean(name: str, value: Any) -> bool:
    """Check that an option of a ranker is a boolean, and return the boolean."""
    if not isinstance(value, bool):
        bad_value(name, "be true or false", repr(value))
    return value
