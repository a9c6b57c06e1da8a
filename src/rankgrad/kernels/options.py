"""Typed options of the kernels: one frozen dataclass per family, built by the loss and read by its kernels.

The operator's schema has only numbers. So `op.py` flattens the options before the call, and the class of the family
restores them inside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import torch


class Pairs(IntEnum):
    """Pairs that count under a cutoff: those with one document in the top k, or with both."""

    ANY = 0
    BOTH = 1


class Gains(IntEnum):
    """Gain of a label y: 2^y - 1, or y."""

    EXP = 0
    LINEAR = 1


class Scheme(IntEnum):
    """Weighting scheme of LambdaLoss."""

    NDCG1 = 0
    NDCG2 = 1
    NDCG2PP = 2
    ARP1 = 3
    ARP2 = 4


class Truncation(IntEnum):
    """Treatment of pairs beyond the cutoff: they are dropped, or weighted up."""

    HEURISTIC = 0
    SOUND = 1


class Targets(IntEnum):
    """Target distribution of ListNet: labels divided by their sum, or their softmax."""

    SUM = 0
    SOFTMAX = 1


class Ties(IntEnum):
    """Order of equal labels in the likelihoods: by position, or chosen together."""

    POSITION = 0
    TOGETHER = 1


class ParamForm(IntEnum):
    """Meaning of the three params of the sigmoid-rank kernels.

    FIXED: log of the gain base, slope of the curved discount (0: the printed form), alpha. LEARNED: LearnDCG's raw
    parameters with the printed discount; LEARNED_CURVED: with the curved one.
    """

    FIXED = 0
    LEARNED = 1
    LEARNED_CURVED = 2


class Regularisation(IntEnum):
    """Regularisation of FastSort's projection."""

    L2 = 0
    ENTROPIC = 1


# By type of a field: its name in an error; the accepted types; the method that converts other types to it.
_WORDS = {float: "a number", int: "a whole number", bool: "True or False"}
_TAKEN: dict[type, Any] = {float: (float, int)}
_CONVERTS = {float: "__float__", int: "__index__"}
Self = TypeVar("Self", bound="KernelOptions")


class KernelOptions:
    """Base class of all options: checks the type of each field, and converts to the numbers of the schema and back.

    A number may also have another type, such as one of NumPy, or be a tensor of one element. Its value is read only
    when the options are settled or flattened, because reading may wait for the device.

    Example:
        >>> options = PairwiseOptions(sigma=2, k=5, scheme=Scheme.ARP1)
        >>> options.flat()
        (2.0, 1.0, 5.0, 0.0, 0.0, 3.0, 0.0, 10.0)
        >>> PairwiseOptions.of(options.flat()) == options
        True
    """

    names: ClassVar[tuple[str, ...]]
    kinds: ClassVar[tuple[type, ...]]

    def __init_subclass__(cls) -> None:
        """Store the names and the types of the fields."""
        cls.names, cls.kinds = tuple(cls.__annotations__), tuple(cls.__annotations__.values())

    def __post_init__(self) -> None:
        """Raise an error if a field has the wrong type."""
        if self.exact() or torch.compiler.is_compiling():
            return
        for name, kind, value in zip(self.names, self.kinds, self.values(), strict=True):
            if not isinstance(value, _TAKEN.get(kind, kind)) and not hasattr(value, _CONVERTS.get(kind, "")):
                raise TypeError(f"{name} must be {_WORDS.get(kind, kind.__name__)}; got {value!r}")

    def values(self) -> tuple[Any, ...]:
        """Values of the fields, in their order."""
        return tuple([getattr(self, name) for name in self.names])

    def exact(self) -> bool:
        """Return True if each field has exactly its declared type; always False while compiling.

        This takes less than a microsecond; each call of a loss does it. `torch.compile` cannot trace `vars`.
        """
        return not torch.compiler.is_compiling() and tuple(map(type, vars(self).values())) == self.kinds

    def settled(self: Self) -> Self:
        """Return the same options with tensors and numbers of other types replaced by their values."""
        return self if self.exact() else self.of(self.flat())

    def flat(self) -> tuple[float, ...]:
        """Return the fields as the numbers of the operator's schema."""
        # The plus sign turns an enum member into a number; `torch.compile` cannot convert the member itself.
        return tuple([float(+value) for value in self.values()])

    @classmethod
    def of(cls: type[Self], numbers: Sequence[float]) -> Self:
        """Return the options from which `flat` made these numbers.

        Args:
            numbers: one per field.
        """
        if len(numbers) != len(cls.kinds):
            raise ValueError(f"{cls.__name__} must have {len(cls.kinds)} numbers; got {len(numbers)}")
        return cls(*[kind(number) for kind, number in zip(cls.kinds, numbers, strict=True)])


@dataclass(frozen=True)
class PairwiseOptions(KernelOptions):
    """Options of `pairwise`: ranknet, hinge, lambdarank, lambdaloss."""

    sigma: float = 1.0  # steepness of the logistic
    margin: float = 1.0  # of the hinge
    k: int = 0  # 0: the whole list
    pairs: Pairs = Pairs.ANY
    gain: Gains = Gains.EXP
    scheme: Scheme = Scheme.NDCG2
    truncation: Truncation = Truncation.HEURISTIC
    mu: float = 10.0  # of ndcg2pp


@dataclass(frozen=True)
class ListwiseOptions(KernelOptions):
    """Options of `listwise`: softmax cross entropies and Plackett-Luce likelihoods."""

    targets: Targets = Targets.SUM  # of listnet
    gamma: float = 0.0  # of xe_ndcg
    epsilon: float = 0.0  # of poly1_softmax
    ties: Ties = Ties.TOGETHER  # of listmle, p_listmle


@dataclass(frozen=True)
class ApproxOptions(KernelOptions):
    """Options of `approx`: metrics at sigmoid ranks."""

    k: int = 0  # 0: the whole list
    beta: float = 10.0  # sharpness of the cutoff
    threshold: float = 0.0  # a label above it is relevant
    form: ParamForm = ParamForm.FIXED


@dataclass(frozen=True)
class NeuralNDCGOptions(KernelOptions):
    """Options of `neural_ndcg`."""

    k: int = 0  # 0: the whole list
    temperature: float = 1.0
    transposed: bool = False
    sinkhorn_rounds: int = 30


@dataclass(frozen=True)
class SoftNDCGOptions(KernelOptions):
    """Options of `soft_ndcg`: NDCG at the soft ranks of SoftSort and FastSort."""

    k: int = 0  # 0: the whole list
    beta: float = 10.0  # sharpness of the cutoff
    temperature: float = 1.0
    p: int = 1  # power of the distances, of SoftSort
    regularisation: Regularisation = Regularisation.L2  # of FastSort


@dataclass(frozen=True)
class SmoothIOptions(KernelOptions):
    """Options of `smooth`: metrics on SmoothI's rank indicators."""

    k: int = 0  # 0: the whole list
    alpha: float = 1.0
    delta: float = 0.1
    threshold: float = 0.0  # a label above it is relevant


# By family: the name of the kernels' file.
OPTIONS: dict[str, type[KernelOptions]] = {
    "approx": ApproxOptions,
    "listwise": ListwiseOptions,
    "neural_ndcg": NeuralNDCGOptions,
    "pairwise": PairwiseOptions,
    "smoothi": SmoothIOptions,
    "soft_ndcg": SoftNDCGOptions,
}
