"""Compute many metrics of the same lists with one sort, and summarise them: means, bootstrap intervals, conventions."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.errors import bad_value
from rankgrad.group_rows import group_offsets, group_rows
from rankgrad.ids import document_ids
from rankgrad.lists import Lists, as_lists
from rankgrad.metrics.custom import CustomMetric, as_metric
from rankgrad.metrics.few_lists import FEW, note_about, t_interval
from rankgrad.metrics.metric import Metric, parse_metric
from rankgrad.metrics.ranked_lists import Ranked, id_codes, nan_scores, rank_padded, settle
from rankgrad.result_table import ResultTable, frame

Values = NDArray[np.float64]

_MOST_PADDING, _SMALL = 8, 1_000_000  # padded positions per document; padded positions that are always allowed


class ByMetric(dict[str, Any]):
    """A dictionary by metric that finds an entry by any spec of its metric: `"MRR"` finds the entry `"RR"`."""

    def __missing__(self, name: Any) -> Any:
        known = str(as_metric(name))
        if known not in self:
            raise KeyError(name)
        return self[known]


@dataclass(frozen=True)
class Evaluation(ResultTable):
    """Result of `evaluate`: `result["nDCG@10"]` is a mean. `print` shows a table of the means and the conventions."""

    means: dict[str, float]  # mean over the lists for each metric
    values: dict[str, Values]  # value of each list, (lists,), for each metric; NaN for an empty list that is skipped
    intervals: dict[str, tuple[float, float]]  # interval of the mean for each metric; see `evaluate`
    conventions: dict[str, dict[str, str]]  # gain, empty, ties and k of each metric
    lists: int  # number of lists
    nan_scores: int = 0  # number of documents with a score of NaN; they are ranked last
    confidence: float = 0.95  # confidence of each interval
    queries: tuple[Any, ...] | None = None  # id of each list, as it was given; None if lists have no ids
    about: str = ""  # note about the computation, if it is unusual; otherwise empty

    def __post_init__(self) -> None:
        for name in ("means", "values", "intervals", "conventions"):
            object.__setattr__(self, name, ByMetric(getattr(self, name)))

    def __getitem__(self, name: Any) -> float:
        return self.means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def keys(self) -> Iterable[str]:
        """Return the names of the metrics of the evaluation. With this method, `dict(result)` contains the means."""
        return self.means.keys()

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of the evaluation as text: a header, then one row per metric."""
        header = ("metric", "mean", f"{self.confidence:.0%} interval", "lists", "gain", "empty", "ties", "k")
        body = []
        for name, mean in self.means.items():
            interval = "[{:.4f}, {:.4f}]".format(*self.intervals[name])
            numbers = (f"{mean:.4f}", interval, str(self._counted(name)))
            body.append((name, *numbers, *self.conventions[name].values()))
        return [header, *body]

    def notes(self) -> list[str]:
        """Return notes about the evaluation, such as the number of NaN scores."""
        missing = f"{self.nan_scores} scores are NaN; their documents are ranked last" if self.nan_scores else ""
        wide = (self._counted(name) for name, (low, high) in self.intervals.items() if low < high)
        return [note for note in (self.about, missing, note_about(wide)) if note]

    def to_frame(self) -> Any:
        """Return a data frame with one row per list: `query`, if lists have ids, and one column per metric.

        A list that a metric skips has the value NaN. The frame is of pandas, or of polars without pandas.

        Example:
            >>> evaluate([2.0, 3.0, 1.0], [2, 1, 0], ["P@1", "RR"], qid=[7, 3, 7]).to_frame()
               query  P@1   RR
            0      7  1.0  1.0
            1      3  1.0  1.0
        """
        return frame(({} if self.queries is None else {"query": list(self.queries)}) | self.values)

    def to_json(self, values: bool = False) -> str:
        """Return the evaluation as JSON text.

        Args:
            values: True to include the value of each list (null for an empty list that is skipped).
        """
        return json.dumps(self.to_dict(values), indent=2)

    def to_dict(self, values: bool = False) -> dict[str, Any]:
        """Return the evaluation as JSON values.

        Args:
            values: True to include the value of each list (None for an empty list that is skipped).
        """
        metrics = {}
        for name, mean in self.means.items():
            metrics[name] = {"mean": mean, "interval": list(self.intervals[name]), "lists": self._counted(name)}
            metrics[name] |= {"conventions": self.conventions[name]}
            if values:
                metrics[name]["values"] = [None if np.isnan(value) else value for value in self.values[name].tolist()]
        whole: dict[str, Any] = {"metrics": metrics, "lists": self.lists, "nan_scores": self.nan_scores}
        whole |= {"about": self.about} if self.about else {}
        return whole | {"confidence": self.confidence} | ({"queries": self.queries} if values and self.queries else {})

    def _counted(self, name: str) -> int:
        return int((~np.isnan(self.values[name])).sum())


def evaluate(
    scores: Any,
    labels: Any,
    metrics: Iterable[Any] | str | Metric | CustomMetric,
    *,
    mask: Any = None,
    offsets: Any = None,
    qid: Any = None,
    group: Any = None,
    ids: Any = None,
    bootstrap: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Evaluation:
    """Compute several metrics with one sort of the lists, and an interval for the mean of each metric.

    The interval contains the percentiles of the means of resampled lists (bootstrap). With fewer than 40 lists, it is
    the interval of Student's t distribution; with fewer than 10 lists, it is rough.

    Args:
        scores, labels, mask, offsets, ids: the lists; see `rankgrad.metrics`.
        qid: query id of each row, `(rows,)`; use it instead of `mask` or `offsets`. The rows may be in any order. The
            lists are in the order of their first rows.
        group: number of rows of each list, `(lists,)`, as in `rankgrad.Ranker.fit`; use it instead of `offsets`.
        metrics: specs such as `"nDCG@10"`, `Metric` values, or functions of the scores and labels of one list.
        bootstrap: number of bootstrap resamples of the lists; all metrics use the same resamples. With 0, both ends of
            an interval are equal to the mean.
        seed: random seed of the resampling.
        confidence: confidence of the intervals.

    Example:
        >>> result = evaluate([[2.0, 1.0, 3.0], [3.0, 2.0, 1.0]], [[2, 0, 1], [1, 0, 0]], ["nDCG@10", "P@1"])
        >>> result["nDCG@10"]
        0.8983...
        >>> print(result)
        metric   mean    95% interval      lists  gain       empty  ties    k
        nDCG@10  0.8984  [0.0000, 1.0000]  2      exp        zero   stable  10
        P@1      1.0000  [1.0000, 1.0000]  2      label > 0  zero   stable  1
        intervals are rough: they are over fewer than 10 lists
        >>> evaluate([2.0, 3.0, 1.0], [2, 1, 0], "P@1", qid=["a", "b", "a"]).values["P@1"]
        array([1., 1.])
    """
    chosen = chosen_metrics(metrics)
    known = {name: metric for name, metric in chosen.items() if isinstance(metric, Metric)}
    layouts = {"mask": mask, "offsets": offsets, "qid": qid, "group": group}
    if len(given := [name for name, layout in layouts.items() if layout is not None]) > 1:
        bad_value("at most one of mask, offsets, qid and group", "be given", " and ".join(given))
    lowest = _lowest(known.values())
    lists = as_lists(scores, labels, mask=mask, offsets=offsets, lowest_label=lowest)
    queries = None
    if not given and lists.given.offsets is None and lists.given[0].dim() == 1 and len(lists.given[0]) > 1:
        advice = "give qid, group or offsets; for one list, scores of shape (1, n)"
        warnings.warn(f"the {len(lists.given[0])} rows are evaluated as one list ({advice})", stacklevel=2)
    if group is not None:
        row_scores, row_labels = _rows(lists, "group")
        sizes = group_offsets(group.cpu() if isinstance(group, torch.Tensor) else group, len(row_scores))
        lists = Lists(row_scores, row_labels, None, torch.from_numpy(sizes).to(row_scores.device))
    if qid is not None:
        lists, ids, queries = _by_query(lists, qid, ids)
    all_ties = {metric.options.get("ties", "stable") for metric in known.values()}
    missing, which, found = 0, [], []
    for members, part, part_ids in _by_length(lists, ids if "trec" in all_ties else None):
        missing += nan_scores(part.scores)
        codes = None if part_ids is None else id_codes(part_ids, part)
        ranked = {ties: rank_padded(part.scores, part.labels, part.mask, ties, codes) for ties in all_ties}
        which.append(members)
        found.append(values_of(ranked, known) | custom_values(part, chosen))
    if missing:
        warnings.warn(f"{missing} scores are NaN; their documents are ranked last", stacklevel=2)
    back = np.argsort(np.concatenate(which))
    values = {name: np.concatenate([part[name] for part in found])[back] for name in chosen}
    return summarise(values, chosen, bootstrap, seed, confidence, queries=queries, missing=missing)


def values_of(ranked: Mapping[str, Ranked], metrics: Mapping[str, Metric]) -> dict[str, Values]:
    """Return the values of all lists for each metric, `(lists,)`; `ranked` has the ranked lists for each `ties`."""
    values: dict[str, Values] = {}
    for name, metric in metrics.items():
        outcome = metric.of(ranked[metric.options.get("ties", "stable")])
        each = settle(outcome, metric.options.get("empty", "zero"), "none")
        values[name] = each.reshape(-1).cpu().numpy().astype(np.float64)
    return values


def custom_values(lists: Lists, metrics: Mapping[str, Metric | CustomMetric]) -> dict[str, Values]:
    """Return the values of all lists for each custom metric, `(lists,)`; a score of NaN is replaced by -inf."""
    scores, labels, mask, offsets, _ = lists.given
    clean = torch.where(scores.isnan(), -torch.inf, scores)
    return {
        name: metric.measure(clean, labels, mask=mask, offsets=offsets, reduction="none").reshape(-1).cpu().numpy()
        for name, metric in metrics.items()
        if isinstance(metric, CustomMetric)
    }


def _rows(lists: Lists, given: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores and labels to evaluate, of rows, `(rows,)`, that `qid` or `group` groups into lists."""
    scores, labels, _, offsets, _ = lists.given
    if offsets is not None or scores.dim() != 1:
        bad_value("scores", f"have one dimension, (rows,), if {given} is given", tuple(scores.shape))
    return scores, labels


def _by_query(rows: Lists, qid: Any, ids: Any) -> tuple[Lists, Any, tuple[Any, ...]]:
    """Group rows to evaluate by query; return the lists, the document ids in the same order, and each list's query."""
    scores, labels = _rows(rows, "qid")
    order, starts, queries = group_rows(qid.cpu() if isinstance(qid, torch.Tensor) else qid)
    if len(order) != len(scores):
        bad_value("qid", f"have one query id per row, ({len(scores)},)", order.shape)
    ids = None if ids is None else document_ids(ids, "ids")
    if ids is not None and ids.shape != order.shape:
        bad_value("ids", f"have one id per row, ({len(order)},)", ids.shape)
    place = torch.from_numpy(order).to(scores.device)
    lists = Lists(scores[place], labels[place], None, torch.from_numpy(starts).to(scores.device))
    return lists, None if ids is None else ids[order], tuple(queries.tolist())


def _by_length(lists: Lists, ids: Any) -> Iterator[tuple[NDArray[np.int64], Lists, Any]]:
    """Yield groups of lists of similar length for `evaluate`: indices of the lists, the lists, and their document ids.

    If all lists need little padding, there is only one group. Groups save memory: in a single group, one list of
    200,000 documents and 20,000 short lists would be padded to 4 billion positions.
    """
    scores, labels, _, offsets, _ = lists.given
    if offsets is None:
        yield np.arange(scores.shape[:-1].numel()), lists, ids
        return
    lengths = offsets.diff().cpu().numpy()
    if lengths.max(initial=0) * len(lengths) <= max(_MOST_PADDING * scores.shape[0], _SMALL):
        yield np.arange(len(lengths)), lists, ids
        return
    size = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)  # lengths in a group differ by a factor below 2
    for one in np.unique(size):
        members = np.flatnonzero(size == one)
        rows = np.flatnonzero(np.repeat(size == one, lengths))
        chosen = torch.from_numpy(rows).to(scores.device)
        part_offsets = torch.tensor([0, *np.cumsum(lengths[members]).tolist()], device=scores.device)
        part = Lists(scores[chosen], labels[chosen], None, part_offsets)
        yield members, part, None if ids is None else document_ids(ids, "ids")[rows]


def summarise(
    values: dict[str, Values],
    metrics: Mapping[str, Metric | CustomMetric],
    bootstrap: int,
    seed: int,
    confidence: float,
    *,
    queries: tuple[Any, ...] | None = None,
    missing: int = 0,
) -> Evaluation:
    """Make an `Evaluation` from the values per list: compute the means and the bootstrap intervals."""
    if bootstrap < 0:
        bad_value("bootstrap", "be at least 0", bootstrap)
    if not 0 < confidence < 1:
        bad_value("confidence", "be between 0 and 1", confidence)
    table = np.stack(list(values.values()), axis=1)  # (lists, metrics)
    means = _means(np.ones((1, len(table))), table)[0]
    low, high = _intervals(table, means, bootstrap, seed, confidence, [*map(_range, metrics.values())])
    return Evaluation(
        means=dict(zip(values, means.tolist(), strict=True)),
        values=values,
        intervals=dict(zip(values, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
        conventions={name: metric.conventions for name, metric in metrics.items()},
        lists=len(table),
        nan_scores=missing,
        confidence=confidence,
        queries=queries,
    )


def named(metrics: Iterable[str | Metric] | str | Metric) -> dict[str, Metric]:
    """Parse the metrics of an evaluation and return them by their spec, in the given order."""
    chosen = [parse_metric(metric) for metric in ([metrics] if isinstance(metrics, str | Metric) else metrics)]
    if not chosen:
        bad_value("metrics", "contain at least one metric", "none")
    return {str(metric): metric for metric in chosen}


def chosen_metrics(metrics: Any) -> dict[str, Metric | CustomMetric]:
    """Return the metrics of `evaluate` by their spec or description, in the given order."""
    chosen: dict[str, Metric | CustomMetric] = {}
    for metric in map(
        as_metric, [metrics] if isinstance(metrics, str | CustomMetric) or callable(metrics) else metrics
    ):
        same = chosen.setdefault(str(metric), metric)
        if isinstance(metric, CustomMetric) and isinstance(same, CustomMetric) and same.function is not metric.function:
            bad_value("metrics", "have different names", f"{metric} twice")
    if not chosen:
        bad_value("metrics", "contain at least one metric", "none")
    return chosen


def _lowest(metrics: Iterable[Metric]) -> float | None:
    """Return the lowest label that all metrics allow: 0 if a metric uses labels as numbers, otherwise None."""
    plain = any(m.name in ("nDCG", "DCG") and not callable(m.options.get("gain")) for m in metrics)
    return 0.0 if plain or any(m.name in ("ERR", "ARP") for m in metrics) else None


def _intervals(
    table: Values, means: Values, bootstrap: int, seed: int, confidence: float, ranges: list[tuple[float, float]]
) -> tuple[Values, Values]:
    """Return both ends of the interval of each metric, `(metrics,)`: percentiles of the means of resampled lists.

    Percentiles over fewer than 40 lists would cover too little, so Student's t distribution gives the interval.
    """
    lists = len(table)
    if bootstrap == 0 or lists == 0:
        return means, means
    generator = np.random.default_rng(seed)
    rows = max(1, 4_000_000 // lists)  # resamples per block: limits the memory for many lists
    resampled = []
    for start in range(0, bootstrap, rows):
        some = min(rows, bootstrap - start)
        drawn = generator.integers(lists, size=(some, lists)) + np.arange(some)[:, None] * lists
        counts = np.bincount(drawn.ravel(), minlength=some * lists).reshape(some, lists)
        resampled.append(_means(counts.astype(np.float64), table))
    low, high = np.quantile(np.concatenate(resampled), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    for metric, values in enumerate(table.T):
        counted = values[~np.isnan(values)]
        if len(counted) < FEW:
            ends, (least, most) = t_interval(counted, confidence), ranges[metric]
            low[metric], high[metric] = np.clip(ends, min(least, *counted, np.inf), max(most, *counted, -np.inf))
    return low, high


def _range(metric: Metric | CustomMetric) -> tuple[float, float]:
    """Return the smallest and the largest value of a metric; an interval over few lists ends there."""
    if isinstance(metric, CustomMetric):
        return -np.inf, np.inf
    return 0.0, np.inf if metric.name in ("DCG", "ARP") else 1.0


def _means(counts: Values, table: Values) -> Values:
    """Return bootstrap means, `(resamples, metrics)`, if each list counts `counts` times; 0 if there are no lists."""
    present = ~np.isnan(table)
    return (counts @ np.where(present, table, 0.0)) / np.maximum(counts @ present, 1.0)
