"""Every loss with the options that change its course, as one list for the tests that hold for all of them."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import references
import references_relax
import torch
from hypothesis import example, given, settings
from strategies import Batch, RaggedLists, ragged_lists, rich_lists
from torch import Tensor

from rankgrad import backend, losses, metrics, relax
from rankgrad.losses import gumbel, relaxed, weighted_sum

# The readable PyTorch is what these tests are about; RANKGRAD_BACKEND=auto runs them on the kernels instead.
BACKEND = os.environ.get("RANKGRAD_BACKEND", "plain")

# Options of each loss, the first entry its plainest call. `weights` are added where a loss takes them.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "LearnDCG": [
        {},
        {"gain_base": 1.5, "discount_base": 4.0, "alpha": 2.0, "k": 3},
        {"discount": "curved", "gain_base": 1.2, "discount_base": 1.3},
        {"discount": "curved", "discount_base": 4.0, "k": 2, "beta": 4.0},
    ],
    "NeuralLoss": [{}, {"form": "published"}],
    "approx_ap": [{}, {"k": 2}, {"k": 3, "temperature": 0.5, "beta": 4.0, "threshold": 1.0}],
    "approx_mrr": [{}, {"k": 2}, {"k": 3, "temperature": 0.5, "beta": 4.0, "threshold": 1.0}],
    "approx_ndcg": [{}, {"k": 2}, {"k": 3, "temperature": 0.5, "beta": 4.0}],
    "approx_precision": [{}, {"k": 2}, {"k": 3, "temperature": 0.5, "beta": 4.0, "threshold": 1.0}],
    "bce": [{}, {"threshold": 1.0}],
    "fastsort_ndcg": [
        {},
        {"k": 2, "temperature": 3.0},
        {"regularisation": "entropic"},
        {"regularisation": "entropic", "k": 2, "temperature": 3.0},
    ],
    "hinge": [{}, {"margin": 0.3}],
    "lambdaloss": [
        {},
        {"k": 1},
        {"k": 2, "truncation": "heuristic"},
        {"scheme": "ndcg1"},
        {"scheme": "ndcg1", "k": 2},
        {"scheme": "ndcg2pp", "mu": 3.0},
        {"scheme": "ndcg2pp", "k": 2},
        {"scheme": "arp1", "k": 2},
        {"scheme": "arp2", "sigma": 2.0},
        {"metric": "AP"},
        {"k": 3},
    ],
    "lambdarank": [
        {},
        {"metric": "P@2"},
        {"metric": "AP"},
        {"metric": "AP", "k": 3},
        {"metric": "RR"},
        {"metric": "RR@2"},
        {"k": 2, "sigma": 2.0},
    ],
    "list_ap": [{}, {"bins": 4}, {"threshold": 1.0}],
    "listce": [{}, {"threshold": 1.0}],
    "listmle": [{}, {"ties": "position"}, {"ties": "efron"}, {"ties": "exact"}],
    "listnet": [{}, {"targets": "softmax"}],
    "margin_mse": [{}],
    "mse": [{}],
    "neural_ndcg": [
        {},
        {"k": 2, "temperature": 0.5},
        {"transposed": True, "k": 2},
        {"sinkhorn_rounds": 0},
        {"sinkhorn_rounds": 2, "transposed": True},
    ],
    "ot_ndcg": [{}, {"rounds": 3}, {"k": 2, "temperature": 0.1, "rounds": 7}],
    "p_listmle": [{}, {"ties": "position"}],
    "poly1_softmax": [{}, {"epsilon": 0.3}],
    "rank_cosine": [{}],
    "ranknet": [{}, {"k": 2, "pairs": "both"}, {"k": 2, "sigma": 2.0}],
    "rmse": [{"levels": 4}],
    "smooth_ap": [{}, {"k": 2, "alpha": 3.0}, {"stop_gradient": False, "delta": 0.3, "threshold": 1.0}],
    "smooth_ndcg": [{}, {"k": 2, "alpha": 3.0}, {"k": None, "stop_gradient": False, "delta": 0.3}],
    "smooth_precision": [{}, {"k": 2, "alpha": 3.0}, {"stop_gradient": False, "delta": 0.3, "threshold": 1.0}],
    "softmax": [{}],
    "softrank_ndcg": [{}, {"k": 2, "sigma": 0.4}],
    "softsort_ndcg": [{}, {"k": 2, "temperature": 0.5, "p": 2}],
    "unique_softmax": [{}],
    "xe_ndcg": [{}, {"gamma": 0.4}],
}
METRICS = {
    "nDCG": "ndcg", "DCG": "dcg", "RR": "rr", "AP": "ap", "P": "precision", "R": "recall", "ERR": "err", "ARP": "arp",
    "Success": "success", "RBP": "rbp", "OPA": "opa",
}  # fmt: skip

# Each operator with its soft permutation, or else its soft ranks, in plain loops.
OPERATORS: dict[relax.Relaxation, tuple[str, Callable[..., Any]]] = {
    relax.neural_sort(): ("permutation", references_relax.neural_sort),
    relax.neural_sort(temperature=0.5, sinkhorn_rounds=30): (
        "permutation",
        lambda s: references_relax.sinkhorn(references_relax.neural_sort(s, 0.5), 30),
    ),
    relax.soft_sort(): ("permutation", references_relax.soft_sort),
    relax.soft_sort(temperature=0.5, p=2): ("permutation", lambda s: references_relax.soft_sort(s, 0.5, 2)),
    relax.smoothi(): ("permutation", references_relax.smoothi),
    relax.smoothi(alpha=3.0, delta=0.3, stop_gradient=False): (
        "permutation",
        lambda s: references_relax.smoothi(s, 3.0, 0.3),
    ),
    relax.optimal_transport(temperature=0.1): ("permutation", lambda s: references_relax.optimal_transport(s, 0.1)),
    relax.soft_rank(): ("permutation", references_relax.soft_rank),
    relax.sigmoid_ranks(): ("ranks", references_relax.sigmoid_ranks),
    relax.fast_sort(temperature=2.0): ("ranks", lambda s: references_relax.fast_sort(s, 2.0)),
    relax.fast_sort(temperature=2.0, regularisation="entropic"): (
        "ranks",
        lambda s: references_relax.fast_sort(s, 2.0, "entropic"),
    ),
}


class Outcome(NamedTuple):
    """What a loss made of a batch, free of its layout."""

    values: Tensor  # (lists,)
    gradient: Tensor  # (documents,), under an upstream gradient that differs from list to list
    padding: Tensor  # gradients of what is no document
    parameters: list[Tensor]  # gradients of the loss's own parameters


@dataclass(frozen=True)
class Case:
    """One way to call a loss."""

    id: str
    name: str
    make: Callable[[], Callable[..., Tensor]]
    reference: Callable[..., float] = field(compare=False)
    signal: str = "a relevant document"
    threshold: float = 0.0
    extras: tuple[str, ...] = ()
    # Ties that break by the position of the document, so that its order matters.
    ties: str | None = None
    # Whether its derivative jumps at places that round scores would hit.
    kinked: bool = False
    exact_gradient: bool = True

    def kind_of_lists(self, untied: bool = False) -> dict[str, bool]:
        """What lists this loss wants; `untied` ones where ties would break by position."""
        return {
            "tied_labels": not (untied and self.ties == "labels"),
            "tied_scores": not (untied and self.ties == "scores"),
            "generic": self.kinked,
        }

    def __call__(self, batch: Batch, reduction: str = "none", loss: Callable[..., Tensor] | None = None) -> Tensor:
        extras = {name: batch.extras[name] for name in self.extras}
        loss = loss or self.make()
        with backend(BACKEND):
            return loss(batch.scores, batch.labels, **batch.layout, **extras, reduction=reduction)

    def outcome(self, batch: Batch, autocast: tuple[bool, bool] = (False, False)) -> Outcome:
        """Values a list and gradients a document; `autocast` says which of forward and backward are inside it."""
        loss = self.make()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast[0]):
            values = self(batch, loss=loss)
        parameters = [p for p in getattr(loss, "parameters", list)() if p.requires_grad]
        upstream = 1.0 + 0.3 * torch.arange(values.numel(), dtype=values.dtype).reshape(values.shape)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast[1]):
            leaf, *others = torch.autograd.grad(values, [batch.leaf, *parameters], upstream)
        is_document = torch.zeros(leaf.numel(), dtype=torch.bool).index_fill(0, batch.documents, True)
        flat = leaf.reshape(-1)
        return Outcome(values.detach(), flat[batch.documents], flat[~is_document], others)

    def has_signal(self, labels: list[float]) -> bool:
        """Whether a list with these labels counts in the mean."""
        return references.carries(self.signal, labels, {"threshold": self.threshold})


def _named(name: str, options: dict[str, Any], extras: tuple[str, ...] = ()) -> Case:
    reference = getattr(references, name)
    text = ",".join([*(f"{key}={value}" for key, value in options.items()), *extras])
    return Case(
        id=f"{name}({text})",
        name=name,
        make=functools.partial(_make, name, options),
        reference=functools.partial(reference, **_plain(options)),
        signal=reference.signal,
        threshold=options.get("threshold", 0.0),
        extras=extras,
        ties=_ties(name, options),
        kinked=name in ("list_ap", "fastsort_ndcg", "hinge"),
        exact_gradient=not name.startswith("smooth_") or not options.get("stop_gradient", True),
    )


def _ties(name: str, options: dict[str, Any]) -> Any:
    if name in ("listmle", "p_listmle"):
        return "labels" if options.get("ties") in ("position", "random") else None
    return _rank_based(name, options)


def _make(name: str, options: dict[str, Any]) -> Callable[..., Tensor]:
    if name == "NeuralLoss":
        return losses.NeuralLoss(**options)
    if name != "LearnDCG":
        return functools.partial(getattr(losses, name), **options)
    # Its parameters are born in the default dtype, and the reference knows the bases to all digits of float64.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return losses.LearnDCG(**options)
    finally:
        torch.set_default_dtype(before)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options in the words of the references: a metric is a name and its cutoff."""
    if "metric" not in options:
        return options
    metric = metrics.parse_metric(options["metric"])
    return {"k": metric.k, **options, "metric": METRICS[metric.name]}


def _rank_based(name: str, options: dict[str, Any]) -> str | None:
    return "scores" if name.startswith("lambda") or (name == "ranknet" and "k" in options) else None


def _relaxed(metric: str, k: int | None, operator: relax.Relaxation) -> Case:
    form, plain = OPERATORS[operator]
    chosen = metrics.parse_metric(metric) if k is None else metrics.parse_metric(metric) @ k

    def reference(scores: list[float], labels: list[float]) -> float:
        return references.relaxed(METRICS[metric], labels, **{form: plain(scores)}, k=k) if scores else 0.0

    return Case(
        id=f"relaxed({chosen}, {operator})",
        name="relaxed",
        make=lambda: relaxed(chosen, operator),
        reference=reference,
        signal="two different labels" if metric == "OPA" else "a relevant document",
        kinked=form == "ranks",
        exact_gradient=getattr(operator, "stop_gradient", False) is False,
    )


def _gumbel(name: str, options: dict[str, Any], scale: float) -> Case:
    plain = _named(name, options)

    def reference(scores: list[float], labels: list[float], noise: list[float]) -> float:
        return plain.reference([s + scale * g for s, g in zip(scores, noise, strict=True)], labels)

    return Case(
        id=f"gumbel({plain.id}, scale={scale})",
        name="gumbel",
        make=lambda: gumbel(plain.make(), scale=scale),
        reference=reference,
        extras=("noise",),
    )


def _sum(*terms: tuple[float, str, dict[str, Any]], extras: tuple[str, ...] = ()) -> Case:
    """A weighted sum of losses that agree on which lists carry signal."""
    plain = [(weight, _named(name, options, extras)) for weight, name, options in terms]

    def reference(*lists: Any, **given: Any) -> float:
        return sum(weight * case.reference(*lists, **given) for weight, case in plain)

    return Case(
        id="+".join(f"{weight}*{case.id}" for weight, case in plain),
        name="weighted_sum",
        make=lambda: weighted_sum(*((weight, case.make()) for weight, case in plain)),
        reference=reference,
        signal=plain[0][1].signal,
        extras=extras,
    )


def _takes_weights(name: str) -> bool:
    loss = getattr(losses, name)
    return "weights" in inspect.signature(getattr(loss, "forward", loss)).parameters


def _one_of_each_type(operators: Iterable[relax.Relaxation]) -> list[relax.Relaxation]:
    return list({type(operator): operator for operator in reversed(list(operators))}.values())


NAMED = [
    *(_named(name, options) for name, choices in OPTIONS.items() for options in choices),
    *(_named(name, choices[-1], ("weights",)) for name, choices in OPTIONS.items() if _takes_weights(name)),
    _named("xe_ndcg", {}, ("gamma", "weights")),
    _named("listmle", {"ties": "random"}, ("noise", "weights")),
    _named("listmle", {"ties": "efron"}, ("weights",)),
]
GUMBEL = [
    _gumbel("approx_ndcg", {}, 1.0),
    _gumbel("neural_ndcg", {"k": 2}, 0.7),
    _gumbel("LearnDCG", {"discount": "curved"}, 1.0),
]
SUMS = [
    _sum((0.7, "softmax", {}), (2.0, "poly1_softmax", {}), extras=("weights",)),
    _sum((0.5, "LearnDCG", {"discount": "curved"}), (0.3, "approx_ndcg", {"k": 2})),
]
UNCUT = [_relaxed(metric, None, operator) for metric in METRICS for operator in OPERATORS]
CUT = [_relaxed(metric, 2, operator) for metric in METRICS for operator in OPERATORS]
# Of each metric and each kind of operator one; a quarter of them every time, in which each occurs.
RELAXED = [_relaxed(metric, 2, operator) for metric in METRICS for operator in _one_of_each_type(OPERATORS)]
SELDOM = [case for place, case in enumerate(RELAXED) if place % 4]
PLAINEST = [_named(name, choices[0]) for name, choices in OPTIONS.items()]
EVERY = [*NAMED, *GUMBEL, *SUMS, *RELAXED]


def every_loss(
    cases: list[Case] | None = None, untied: bool = False, pool: tuple[float, ...] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test `(loss, lists)` for every loss, each on a rich batch of lists and on some that hypothesis draws."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(loss: Case) -> None:
            kind = loss.kind_of_lists(untied)

            @settings(max_examples=2 if loss.name == "relaxed" else 6)
            @example(lists=rich_lists(**kind, pool=pool))
            @given(lists=ragged_lists(**kind, pool=pool))
            def check(lists: RaggedLists) -> None:
                test(loss, lists)

            check()

        return each_loss(cases)(run)

    return decorate


def each_loss(cases: list[Case] | None = None) -> pytest.MarkDecorator:
    """Run a test `(loss, ...)` once for every loss."""
    chosen = EVERY if cases is None else cases
    seldom = {case.id for case in SELDOM}
    marks = [pytest.mark.long if case.id in seldom else () for case in chosen]
    return pytest.mark.parametrize(
        "loss", [pytest.param(case, id=case.id, marks=mark) for case, mark in zip(chosen, marks, strict=True)]
    )
