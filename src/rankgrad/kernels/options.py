"""Typed options of the kernels: one frozen dataclass per family. A loss makes the options, and its kernels read them.

The schema of the operator has only numbers. So `op.py` converts the options to numbers before it calls the operator.
The operator converts the numbers back, with the class of the family.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import torch


class Pairs(IntEnum):
    """Pairs that a pairwise kernel with cutoff k uses: at least one document (ANY) or both (BOTH) are in the top k."""

    ANY = 0
    BOTH = 1


class Gains(IntEnum):
    """Gain of a label y in the pairwise kernels: 2^y - 1 (EXP) or y (LINEAR)."""

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
    """Treatment of documents beyond the cutoff in LambdaLoss.

    HEURISTIC: pairs of two such documents do not count. SOUND: pairs with such a document have a higher weight.
    """

    HEURISTIC = 0
    SOUND = 1


class Targets(IntEnum):
    """Target distribution of ListNet: labels divided by their sum (SUM), or softmax of the labels (SOFTMAX)."""

    SUM = 0
    SOFTMAX = 1


class Ties(IntEnum):
    """Treatment of equal labels in ListMLE.

    POSITION: by position in the list. TOGETHER: Breslow's likelihood. EFRON: Efron's likelihood. EXACT: exact
    likelihood.
    """

    POSITION = 0
    TOGETHER = 1
    EFRON = 2
    EXACT = 3


class ParamForm(IntEnum):
    """Meaning of the three params of the kernels of the family `approx`.

    FIXED: logarithm of the gain base, slope of the curved discount (0 for the log discount), alpha. LEARNED: raw
    parameters of LearnDCG with the log discount. LEARNED_CURVED: raw parameters of LearnDCG with the curved discount.
    """

    FIXED = 0
    LEARNED = 1
    LEARNED_CURVED = 2


class Regularisation(IntEnum):
    """Regularisation of FastSort's projection."""

    L2 = 0
    ENTROPIC = 1


# For each type of a field: description in errors; accepted types; method that converts other types to this type.
_WORDS = {float: "a number", int: "an integer", bool: "True or False"}
_TAKEN: dict[type, Any] = {float: (float, int)}
_CONVERTS = {float: "__float__", int: "__index__"}
Self = TypeVar("Self", bound="KernelOptions")


class KernelOptions:
    """Base class of the options of all kernels.

    The class checks the type of each field, and converts the fields to numbers and back. A number may also have a NumPy
    type, or be a tensor with one element. Only `settled` and `flat` read the value of a tensor, because reading may
    have to wait for the device.

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
        """Store the names and the types of the kernel options."""
        cls.names, cls.kinds = tuple(cls.__annotations__), tuple(cls.__annotations__.values())

    def __post_init__(self) -> None:
        """Raise an error if a kernel option has the wrong type."""
        if self.exact() or torch.compiler.is_compiling():
            return
        for name, kind, value in zip(self.names, self.kinds, self.values(), strict=True):
            if not isinstance(value, _TAKEN.get(kind, kind)) and not hasattr(value, _CONVERTS.get(kind, "")):
                raise TypeError(f"{name} must be {_WORDS.get(kind, kind.__name__)}; got {value!r}")

    def values(self) -> tuple[Any, ...]:
        """Return the values of all options of a kernel, in the order of the fields."""
        return tuple([getattr(self, name) for name in self.names])

    def exact(self) -> bool:
        """Return True if each kernel option has exactly its declared type; False while `torch.compile` traces the code.

        Each call of a loss calls this method, so it must be fast: it takes less than a microsecond. `torch.compile`
        cannot trace `vars`.
        """
        return not torch.compiler.is_compiling() and tuple(map(type, vars(self).values())) == self.kinds

    def settled(self: Self) -> Self:
        """Return kernel options with the same values, in which each field has exactly its declared type."""
        return self if self.exact() else self.of(self.flat())

    def flat(self) -> tuple[float, ...]:
        """Return the kernel options as numbers, for the schema of the operator."""
        # The plus sign converts an enum member to a number, because `torch.compile` cannot trace `float(member)`.
        return tuple([float(+value) for value in self.values()])

    @classmethod
    def of(cls: type[Self], numbers: Sequence[float]) -> Self:
        """Convert numbers that `flat` returned back to the options of a kernel.

        Args:
            numbers: one number per field.
        """
        if len(numbers) != len(cls.kinds):
            raise ValueError(f"{cls.__name__} must have {len(cls.kinds)} numbers; got {len(numbers)}")
        return cls(*[kind(number) for kind, number in zip(cls.kinds, numbers, strict=True)])


@dataclass(frozen=True)
class PairwiseOptions(KernelOptions):
    """Options of the family `pairwise`: ranknet, hinge, lambdarank, lambdaloss."""

    sigma: float = 1.0  # steepness of the logistic function
    margin: float = 1.0  # margin of the hinge loss
    k: int = 0  # cutoff; 0 for the whole list
    pairs: Pairs = Pairs.ANY
    gain: Gains = Gains.EXP
    scheme: Scheme = Scheme.NDCG2
    truncation: Truncation = Truncation.HEURISTIC
    mu: float = 10.0  # weight of the ndcg2 term in the scheme ndcg2pp


@dataclass(frozen=True)
class ListwiseOptions(KernelOptions):
    """Options of the family `listwise`: softmax cross entropies and Plackett-Luce likelihoods."""

    targets: Targets = Targets.SUM  # target distribution of listnet
    gamma: float = 0.0  # number that xe_ndcg subtracts from 2^y
    epsilon: float = 0.0  # weight of the additional term of poly1_softmax
    ties: Ties = Ties.TOGETHER  # treatment of equal labels in listmle and p_listmle


@dataclass(frozen=True)
class ApproxOptions(KernelOptions):
    """Options of the family `approx`: metrics computed from sigmoid ranks."""

    k: int = 0  # cutoff; 0 for the whole list
    beta: float = 10.0  # sharpness of the soft cutoff
    threshold: float = 0.0  # documents with a higher label are relevant
    form: ParamForm = ParamForm.FIXED


@dataclass(frozen=True)
class NeuralNDCGOptions(KernelOptions):
    """Options of the family `neural_ndcg`."""

    k: int = 0  # cutoff; 0 for the whole list
    temperature: float = 1.0
    transposed: bool = False
    sinkhorn_rounds: int = 30


@dataclass(frozen=True)
class SoftNDCGOptions(KernelOptions):
    """Options of the family `soft_ndcg`: NDCG computed from the soft ranks of SoftSort and FastSort."""

    k: int = 0  # cutoff; 0 for the whole list
    beta: float = 10.0  # sharpness of the soft cutoff
    temperature: float = 1.0
    p: int = 1  # power of the distances in SoftSort
    regularisation: Regularisation = Regularisation.L2  # regularisation of FastSort


@dataclass(frozen=True)
class SmoothIOptions(KernelOptions):
    """Options of the family `smoothi`: metrics computed from SmoothI's rank indicators."""

    k: int = 0  # cutoff; 0 for the whole list
    alpha: float = 1.0
    delta: float = 0.1
    threshold: float = 0.0  # documents with a higher label are relevant


# Options of each family. The key is the name of the family, which is also the name of the file with its kernels.
OPTIONS: dict[str, type[KernelOptions]] = {
    "approx": ApproxOptions,
    "listwise": ListwiseOptions,
    "neural_ndcg": NeuralNDCGOptions,
    "pairwise": PairwiseOptions,
    "smoothi": SmoothIOptions,
    "soft_ndcg": SoftNDCGOptions,
}
