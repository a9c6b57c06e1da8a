"""What every ranker is: features of lists in, one score per document out, in two layouts; and checks of its options."""

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


class Scorer(nn.Module):
    """A ranker: a module of features and offsets. A subclass says how rows are scored; the layouts are said here."""

    model: ClassVar[str]  # the name in text
    list_aware: ClassVar[bool] = False  # whether a document's score depends on the rest of its list

    def __init__(self, features: int, **options: Any) -> None:
        super().__init__()
        self.features = whole_number("features", features)
        self._config = {"model": self.model, "features": self.features, **options}

    @property
    def config(self) -> dict[str, Any]:
        """What `rankers.build` needs to make the same architecture again; ready for JSON."""
        return copy.deepcopy(self._config)

    def forward(self, features: Tensor, offsets: Tensor, *, width: int | None = None) -> Tensor:
        """Scores `(documents,)` of flat lists.

        Args:
            features: `(documents, f)`. Rows from `offsets[-1]` on belong to no list: their scores mean nothing, and
                they change no other score.
            offsets: integers `(lists + 1,)`, from 0, never falling.
            width: at least the length of the longest list. A list-aware ranker without it reads the length from
                `offsets`, for which a GPU has to be waited for.
        """
        self._check(features, 2, "(documents, {})")
        if offsets.dim() != 1 or offsets.shape[0] == 0 or offsets.dtype.is_floating_point:
            bad_value("offsets", "be integers (lists + 1,)", f"{tuple(offsets.shape)} of {offsets.dtype}")
        if offsets.device != features.device:
            bad_value("offsets", f"be on the device of features, {features.device}", offsets.device)
        places = ListIndex.flat(offsets.long(), features.shape[0], width, gathers=self.list_aware)
        return self.score(places.clean(features), places)

    if TYPE_CHECKING:
        __call__ = forward  # PyTorch's own would give Any

    def padded(self, features: Tensor, mask: Tensor) -> Tensor:
        """Scores `(lists, n)` of padded lists, the same layers with no arithmetic of offsets: what is exported.

        Args:
            features: `(lists, n, f)`; padding may hold anything.
            mask: boolean `(lists, n)`, True for a real document. The scores of padding are finite and mean nothing.
        """
        self._check(features, 3, "(lists, n, {})")
        if mask.dtype != torch.bool or mask.shape != features.shape[:2]:
            bad_value("mask", f"be boolean {tuple(features.shape[:2])}", f"{tuple(mask.shape)} of {mask.dtype}")
        places = ListIndex.padded(mask)
        return self.score(places.clean(features.flatten(0, 1)), places).view(mask.shape)

    @abstractmethod
    def score(self, rows: Tensor, places: ListIndex) -> Tensor:
        """Compute scores, `(rows,)`.

        Args:
            rows: features, `(rows, f)`.
            places: says which rows make a list.
        """

    def _check(self, features: Tensor, dims: int, shape: str) -> None:
        if features.dim() != dims or features.shape[-1] != self.features:
            bad_value("features", f"be {shape.format(self.features)}", tuple(features.shape))
        if not features.dtype.is_floating_point:
            bad_type("features", "be floating point", features.dtype)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        bad_value(name, f"be a whole number, at least {least}", repr(value))
    return value


def wholes(name: str, value: Any) -> list[int]:
    """Whole numbers, at least 1 each; one alone stands for a list of one."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    return [whole_number(name if len(values) == 1 else f"each of {name}", each) for each in values]


def real(name: str, value: Any, least: float = 0.0) -> float:
    """A finite number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        bad_value(name, f"be a number, at least {least:g}", repr(value))
    return value


def share(name: str, value: Any) -> float:
    """A number from 0 up to, not including, 1: a dropout."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        bad_value(name, "be a number from 0 up to, not including, 1", repr(value))
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        bad_value(name, "be true or false", repr(value))
    return value
