"""Compare two rankers on the same lists: test their difference, and find the queries with the largest difference."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset, from_arrays
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.errors import bad_value
from rankgrad.experiments import statistics
from rankgrad.metrics import parse_metric
from rankgrad.metrics.evaluate import named
from rankgrad.metrics.few_lists import note_about
from rankgrad.result_table import ResultTable

Scores = NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """Difference between rankers a and b in one metric, over the queries that the metric does not skip."""

    metric: str  # spec of the metric
    a: float  # mean of ranker a
    b: float  # mean of ranker b
    difference: float  # mean of a - b
    interval: tuple[float, float]  # bootstrap interval of the difference
    t: float  # p-value of the paired t-test
    randomisation: float  # p-value of the randomisation test
    queries: int  # number of queries
    wins: int  # number of queries for which a is better
    losses: int  # number of queries for which b is better
    conventions: dict[str, str]  # conventions of the metric


@dataclass(frozen=True)
class RankedDocument:
    """A document in a ranked list of a comparison."""

    rank: int  # from 1
    document: str  # document id; if there are no ids, the number of the document in the unranked list, from 1
    label: float
    score: float
    other: int  # rank of the document in the list of the other ranker, from 1


@dataclass(frozen=True)
class ComparedQuery:
    """A query of a comparison, with the first documents of the list of each ranker."""

    query: str
    a: float  # value of the first metric for ranker a
    b: float  # value of the first metric for ranker b
    documents: int  # number of documents in the list
    list_a: tuple[RankedDocument, ...]
    list_b: tuple[RankedDocument, ...]


@dataclass(frozen=True)
class Comparison(ResultTable):
    """Comparison of two rankers: differences in all metrics, and queries that differ most in the first metric."""

    metrics: tuple[Difference, ...]  # difference in each metric
    queries: tuple[ComparedQuery, ...]  # queries, or their lists, with the largest difference, the largest first
    lists: int  # number of lists, including those that a metric skips
    confidence: float  # confidence of the intervals
    about: str = ""  # notes on unusual metrics and on rough intervals; usually empty

    def __getitem__(self, metric: Any) -> Difference:
        """Return the difference of the rankers in one metric, by its spec: `found["nDCG@10"].interval`."""
        name = str(parse_metric(metric))
        for row in self.metrics:
            if row.metric == name:
                return row
        raise KeyError(metric)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of the comparison as text, one row per metric: means, difference, interval and p-values."""
        head = ("metric", "a", "b", "a - b", f"{self.confidence:.0%} interval", "p (t)", "p (random.)", "lists")
        return [head, *map(_cells, self.metrics)]

    def notes(self) -> list[str]:
        """Return a note on how the metrics are computed, if this is unusual."""
        return [self.about] if self.about else []

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that can be written as JSON; a NaN or infinite score becomes None."""
        whole = asdict(self)
        for query in whole["queries"]:
            for place in (*query["list_a"], *query["list_b"]):
                place["score"] = place["score"] if np.isfinite(place["score"]) else None
        return whole


def compare_scores(
    a: Any,
    b: Any,
    labels: Any,
    metrics: Iterable[str] | str = "nDCG@10",
    *,
    qid: Any = None,
    group: Any = None,
    docids: Any = None,
    most: int = 5,
    rounds: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare the scores of two rankers on the same rows: means, paired differences, intervals and p-values.

    The scores may come from any program. The lists are the random sample; the two rankers are fixed. To compare
    two losses, train each with several seeds, and use `compare_runs`.

    Args:
        a, b: scores of ranker a and of ranker b, `(rows,)`.
        labels: labels of the rows, `(rows,)`, at least 0.
        metrics: specs of metrics; the queries to show have the largest difference in the first metric.
        qid: query id of each row; rows may be in any order. Exactly one of `qid` and `group` is required.
        group: number of rows of each list, as in LightGBM and XGBoost.
        docids: document id of each row, for the ranked lists of `queries`.
        most: maximum number of queries in `queries`.
        rounds, confidence, seed: settings of the bootstrap interval and the randomisation test.

    Example:
        >>> labels, qid = [2, 0, 1, 0, 1, 0, 3, 0], [1, 1, 1, 2, 2, 3, 3, 3]
        >>> good, poor = [3.0, 1.0, 2.0, 1.0, 2.0, 1.0, 3.0, 2.0], [1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 1.0, 2.0]
        >>> found = compare_scores(good, poor, labels, ["nDCG@10", "P@1"], qid=qid)
        >>> print(found)
        metric   a       b       a - b    95% interval        p (t)  p (random.)  lists
        nDCG@10  1.0000  0.6065  +0.3935  [+0.1535, +0.6335]  0.020  0.250        3
        P@1      1.0000  0.3333  +0.6667  [-0.7676, +2.1009]  0.184  0.500        3
        intervals are rough: they are over fewer than 10 lists
        >>> found["nDCG@10"].difference > 0, found.queries[0].query
        (True, '3')
    """
    y = _array(labels)
    data, rows = from_arrays(np.zeros((len(y), 1)), y, qid=_array(qid), group=_array(group), docids=docids)
    given = {"a": _array(a), "b": _array(b)}
    for name, scores in given.items():
        if scores.shape != y.shape:
            bad_value(name, f"have one score per row, {y.shape}", scores.shape)
    options: dict[str, Any] = {"most": most, "rounds": rounds, "confidence": confidence, "seed": seed}
    return compare(given["a"][rows], given["b"][rows], data, metrics, **options)


def compare(
    a: Scores,
    b: Scores,
    data: Dataset,
    metrics: Iterable[str] | str = "nDCG@10",
    *,
    most: int = 5,
    depth: int = 10,
    rounds: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare two rankers on the same lists; `rankgrad.data.evaluation.evaluate_lists` computes the metrics.

    Args:
        a, b: scores of ranker a and of ranker b, `(documents,)`.
        data: lists that were ranked.
        metrics: specs of metrics; the queries to show have the largest difference in the first metric.
        most: maximum number of queries to show; queries without a difference are not shown.
        depth: number of documents to show per list.
        rounds, confidence, seed: settings of the bootstrap interval and the randomisation test.

    Example:
        >>> from rankgrad.data import synthetic
        >>> test = synthetic(30, features=12, seed=1).test
        >>> found = compare(test.best, test.features[:, 0], test)
        >>> found.metrics[0].difference > 0, found.metrics[0].t < 0.05, len(found.queries)
        (True, True, 5)
    """
    for name, scores in (("a", a), ("b", b)):
        if np.shape(scores) != data.labels.shape:
            must = f"have one score per document, shape {data.labels.shape}"
            bad_value(f"scores of ranker {name}", must, f"shape {np.shape(scores)}")
    ours, theirs = (evaluate_lists(scores, data, metrics, bootstrap=0) for scores in (a, b))
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (a, b))  # native numbers, which PyTorch can sort
    found = []
    for text, metric in named(metrics).items():
        values = ours.values[text], theirs.values[text]
        d = statistics.differences(*values)
        test = statistics.paired_t(*values)
        better = d if metric.higher_is_better else -d
        found.append(
            Difference(
                metric=text,
                a=ours.means[text],
                b=theirs.means[text],
                difference=test.difference,
                interval=statistics.bootstrap(d, rounds=rounds, confidence=confidence, seed=seed),
                t=test.p,
                randomisation=statistics.randomisation(*values, rounds=rounds, seed=seed).p,
                queries=test.n,
                wins=int((better > 0).sum()),
                losses=int((better < 0).sum()),
                conventions=ours.conventions[text],
            )
        )
    first = found[0].metric
    each = [ours.values[first], theirs.values[first]]
    if data.list_ids is not None:  # a ranking is shown next to its own value, not that of its query
        each = [evaluate_lists(s, data, metrics, bootstrap=0, by_query=False).values[first] for s in (a, b)]
    apart = np.nan_to_num(np.abs(each[0] - each[1]))
    chosen = [int(place) for place in np.argsort(-apart, kind="stable")[:most] if apart[place] > 0]
    queries = [
        ComparedQuery(
            query=data.list_names[place],
            a=float(each[0][place]),
            b=float(each[1][place]),
            documents=int(data.lengths[place]),
            list_a=top_documents(a, b, data, place, depth),
            list_b=top_documents(b, a, data, place, depth),
        )
        for place in chosen
    ]
    rough = note_about(row.queries for row in found if row.interval[0] < row.interval[1])
    about = "; ".join(filter(None, (ours.about, rough)))
    return Comparison(tuple(found), tuple(queries), len(ours.values[first]), confidence, about)


def p_value(p: float) -> str:
    """Return a p-value as text, with three digits.

    Args:
        p: p-value.
    """
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _cells(row: Difference) -> tuple[str, ...]:
    low, high = row.interval
    values = (f"{row.a:.4f}", f"{row.b:.4f}", f"{row.difference:+.4f}", f"[{low:+.4f}, {high:+.4f}]")
    return (row.metric, *values, p_value(row.t), p_value(row.randomisation), str(row.queries))


def _array(values: Any) -> Any:
    """Return the rows of a comparison as an array; None stays None. A tensor may need a gradient or be on a GPU."""
    if values is None:
        return None
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    return np.asarray(values)


def top_documents(
    scores: Scores, other: Scores, data: Dataset, place: int, depth: int = 10
) -> tuple[RankedDocument, ...]:
    """Return the first documents of one ranked list, with their ranks in the list of the other ranker."""
    rows = slice(int(data.offsets[place]), int(data.offsets[place + 1]))
    order, elsewhere = _order(scores[rows]), np.argsort(_order(other[rows]))
    labels = data.labels[rows]
    ids = range(1, len(labels) + 1) if data.docids is None else data.docids[rows]
    first = order[:depth].tolist()
    return tuple(
        RankedDocument(rank, str(ids[i]), float(labels[i]), float(scores[rows][i]), int(elsewhere[i]) + 1)
        for rank, i in enumerate(first, start=1)
    )


def _order(scores: Scores) -> NDArray[np.int64]:
    """Return the order of a compared list, as metrics rank it: highest score first, ties by position, NaN last."""
    import torch

    from rankgrad.metrics.sort_order import order

    tensor = torch.from_numpy(np.ascontiguousarray(scores))
    return order(tensor, torch.ones(len(tensor), dtype=torch.bool)).numpy()
