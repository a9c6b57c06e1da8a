"""Metrics as value objects: `nDCG(gain='linear')@10` is the same in Python, on the command line and in tables."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.metrics import arp_opa, binary, cascade, cumulative_gain
from rankgrad.metrics.ranked_lists import EMPTY, ListValues, Ranked, check_cutoff
from rankgrad.metrics.sort_order import TIES
from rankgrad.option_checks import fit_options
from rankgrad.spec import LARGEST_CUTOFF, known_options, show, spell


class MetricKind(NamedTuple):
    """The functions that compute a metric."""

    function: Callable[..., Tensor]  # function of scores and labels
    ranked: Callable[..., ListValues]  # function of lists that are already ranked
    higher_is_better: bool = True


KINDS: Mapping[str, MetricKind] = MappingProxyType(
    {
        "nDCG": MetricKind(cumulative_gain.ndcg, cumulative_gain.ranked_ndcg),
        "DCG": MetricKind(cumulative_gain.dcg, cumulative_gain.ranked_dcg),
        "RR": MetricKind(cascade.rr, cascade.ranked_rr),
        "AP": MetricKind(binary.ap, binary.ranked_ap),
        "P": MetricKind(binary.precision, binary.ranked_precision),
        "R": MetricKind(binary.recall, binary.ranked_recall),
        "Success": MetricKind(cascade.success, cascade.ranked_success),
        "ERR": MetricKind(cascade.err, cascade.ranked_err),
        "RBP": MetricKind(binary.rbp, binary.ranked_rbp),
        "ARP": MetricKind(arp_opa.arp, arp_opa.ranked_arp, higher_is_better=False),
        "OPA": MetricKind(arp_opa.opa, arp_opa.ranked_opa),
    }
)
_ALIASES = {"mrr": "RR", "map": "AP", "precision": "P", "recall": "R"}
_KNOWN = {name.lower(): name for name in KINDS} | _ALIASES
_HIT_RATES = ("hr", "hit", "hits", "hitrate", "hitratio")  # not aliases: some papers mean the recall by it
_SHARED = {"empty": "zero", "ties": "stable"}


@dataclass(frozen=True, repr=False)
class Metric:
    """A metric with its cutoff and options; its printed form is a spec.

    `metric @ k` is the same metric with cutoff k. `metric(option=value)` is the same metric with this option. Two
    metrics are equal if they compute the same values, because options that have their default value are not stored.

    Example:
        >>> metric = nDCG(gain="linear") @ 5
        >>> metric, metric.name, metric.k, metric.options
        (nDCG(gain='linear')@5, 'nDCG', 5, {'gain': 'linear'})
        >>> metric.measure(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([2, 0, 1]))
        tensor(0.8597)
    """

    name: str  # a name in `KINDS`: nDCG, DCG, RR, AP, P, R, Success, ERR, RBP, ARP or OPA
    k: int | None = None  # only the first k ranks count; with None, all ranks count
    settings: tuple[tuple[str, Any], ...] = ()  # options that differ from their default, sorted by name

    def __post_init__(self) -> None:
        one_of("metric", self.name, KINDS)
        check_cutoff(self.k)
        if self.k is not None and self.k > LARGEST_CUTOFF:
            bad_value("k", f"be at most {LARGEST_CUTOFF:,}", show(self.k))
        known = self.defaults
        if "k" in dict(self.settings):
            got = f"the option k={show(dict(self.settings)['k'])}"
            bad_value("k", f"be written after @, as in {self.name}@{self.k or 10}", got)
        known_options(self.name, dict(self.settings), known)
        fitted = fit_options(self.name, dict(self.settings), self.function)
        settings = {option: value for option, value in fitted.items() if value != known[option]}
        object.__setattr__(self, "settings", tuple(sorted(settings.items())))
        one_of("empty", settings.get("empty", "zero"), EMPTY)
        one_of("ties", settings.get("ties", "stable"), TIES)
        self.of(_NOTHING)  # this call on an empty list makes the function check its options

    @property
    def options(self) -> dict[str, Any]:
        """Options of the metric that differ from their default."""
        return dict(self.settings)

    @property
    def defaults(self) -> dict[str, Any]:
        """All options of the metric with their defaults."""
        parameters = inspect.signature(KINDS[self.name].ranked).parameters
        public = inspect.signature(self.function).parameters
        names = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
        return {name: public[name].default for name in names if name != "k"} | _SHARED

    @property
    def function(self) -> Callable[..., Tensor]:
        """The function of scores and labels that this metric calls."""
        return KINDS[self.name].function

    @property
    def higher_is_better(self) -> bool:
        """True if a better ranking has a higher value."""
        return KINDS[self.name].higher_is_better

    @property
    def conventions(self) -> dict[str, str]:
        """Gain, empty, ties and k. The values of two metrics are comparable only if these four are equal."""
        every = self.defaults | self.options
        if "max_label" in every:
            gain = f"(2^y - 1) / 2^{every['max_label']:g}"
        elif "threshold" in every:
            gain = f"{'best ' if every.get('first') == 'best' else ''}label > {every['threshold']:g}"
        else:
            gain = _text(every.get("gain", "label"))
        return {"gain": gain, "empty": every["empty"], "ties": every["ties"], "k": str(self.k or "all")}

    def measure(
        self,
        scores: Any,
        labels: Any,
        *,
        mask: Any = None,
        offsets: Any = None,
        ids: Any = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Compute this metric object for each list, and return the reduced values.

        Args:
            scores, labels, mask, offsets, ids, reduction: the lists and the reduction of their values; see
                `rankgrad.metrics`.
        """
        lists = {"mask": mask, "offsets": offsets, "ids": ids, "reduction": reduction}
        return self.function(scores, labels, k=self.k, **lists, **self.options)

    def of(self, ranked: Ranked) -> ListValues:
        """Compute the metric for lists that are already ranked, and return one value per list.

        Args:
            ranked: lists whose documents are sorted by score.
        """
        every = {name: value for name, value in (self.defaults | self.options).items() if name not in _SHARED}
        return KINDS[self.name].ranked(ranked, k=self.k, **every)

    def __matmul__(self, k: int) -> "Metric":
        return replace(self, k=k)

    def __call__(self, **options: Any) -> "Metric":
        """Return the same metric with these options added.

        Args:
            options: options of the metric's function, such as `gain`, `empty` and `ties`.
        """
        return replace(self, settings=tuple((self.options | options).items()))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={_text(value, quoted=True)}" for name, value in self.settings)
        return self.name + (f"({options})" if options else "") + ("" if self.k is None else f"@{self.k}")


def parse_metric(text: "str | Metric") -> Metric:
    """Make a metric from a spec. The name may be in upper or lower case.

    MRR, MAP, NDCG, Precision and Recall are also accepted as names. The value of an option is a number or a text, with
    or without quotes. The spec is never executed as code.

    Args:
        text: spec `name[@k][:option=value,...]` or `name(option=value, ...)[@k]`. A metric is returned unchanged.

    Example:
        >>> parse_metric("ndcg(gain='linear')@5"), parse_metric("MRR@10"), parse_metric("nDCG@5:gain=linear,ties=trec")
        (nDCG(gain='linear')@5, RR@10, nDCG(gain='linear', ties='trec')@5)
    """
    if isinstance(text, Metric):
        return text
    if not isinstance(text, str):
        bad_type("metric", "be a spec such as 'nDCG@10', or a Metric", type(text).__name__)
    return _parse(text)


@lru_cache(maxsize=1000)
def _parse(text: str) -> Metric:
    name, k, options = spell("metric", text, keep_case=True)
    if name.lower().replace("_", "") in _HIT_RATES:
        meaning = "1 for a list with a relevant document in the first k, otherwise 0"
        bad_value("metric", "be a known name", f"{name!r}; did you mean 'Success' ({meaning})?")
    if name.lower() not in _KNOWN:
        one_of("metric", name, [*KINDS, "MRR", "MAP", "Precision", "Recall"])
    return Metric(_KNOWN[name.lower()], k, tuple(options.items()))


def _text(value: Any, quoted: bool = False) -> str:
    if callable(value):
        return str(getattr(value, "__qualname__", value))
    return repr(value) if quoted else str(value)


def _nothing() -> Ranked:
    labels, mask = torch.zeros(1), torch.zeros(1, dtype=torch.bool)
    return Ranked(labels, mask, labels, mask)


_NOTHING = _nothing()

nDCG = Metric("nDCG")
DCG = Metric("DCG")
RR = Metric("RR")
AP = Metric("AP")
P = Metric("P")
R = Metric("R")
Success = Metric("Success")
ERR = Metric("ERR")
RBP = Metric("RBP")
ARP = Metric("ARP")
OPA = Metric("OPA")
