"""Explain one list: contributions of features to the difference of two scores, and the metric without each feature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.dataset import Categories
from rankgrad.data.evaluation import evaluate_lists
from rankgrad.data.sparse_rows import dense
from rankgrad.errors import bad_value, mistyped
from rankgrad.models.feature_importance import feature_names
from rankgrad.result_table import aligned, frame

if TYPE_CHECKING:
    from rankgrad.models.protocol import TrainedModel

_ROWS = 20  # number of features that `str` shows
_EXACT = 1e-5  # maximum error of the sum of the contributions, relative to scores above 1


@dataclass(frozen=True)
class ListExplanation:
    """Explanation of one list. The contributions and `others` sum to the first score minus the second score.

    "Without the feature" means: a number is replaced by its mean in the list, and a category by a missing value.
    """

    query: str  # query id
    documents: tuple[str, str]  # names of the two documents
    labels: tuple[float, float]  # labels of the two documents
    ranks: tuple[int, int]  # ranks of the two documents, from 1
    scores: tuple[float, float]  # scores of the two documents
    names: tuple[str, ...]  # names of the features
    contributions: NDArray[np.float64]  # contribution of each feature, `(features,)`
    others: dict[str, float]  # contributions that do not belong to a feature of the two documents, by name
    values: NDArray[np.float32]  # features of the two documents, `(2, features)`; categories are numbers
    method: str  # method of the contributions
    error: float  # upper bound for the total absolute error of the contributions, from numerical integration
    metric: str  # name of the metric
    value: float  # metric of the list; NaN if the metric skips the list
    losses: NDArray[np.float64]  # how much worse the metric is without the feature, `(features,)`
    categories: Categories | None = None  # categories of the categorical features, by column

    @property
    def gap(self) -> float:
        """Score of the first explained document minus the score of the second explained document."""
        return self.scores[0] - self.scores[1]

    def shown_values(self, at: int) -> list[float | str | None]:
        """Return the values of a feature for the explained documents; a category as text, or None if it is missing.

        Args:
            at: position of the feature.
        """
        values = self.values[:, at].tolist()
        if (texts := (self.categories or {}).get(at)) is None:
            return values
        return [None if value != value else texts[int(value)] for value in values]

    def order(self, top: int | None = None) -> list[int]:
        """Return the positions of the explained features, the largest absolute contribution first.

        Args:
            top: maximum number of features; None for all features.
        """
        return [int(place) for place in np.argsort(-np.abs(self.contributions), kind="stable")[:top]]

    def terms(self, top: int | None = None) -> list[tuple[str, float]]:
        """Return pairs of name and contribution. The contributions sum to `gap`.

        The features after the first `top` are one pair, and `others` are at the end.

        Args:
            top: maximum number of features; None for all features.
        """
        order = self.order(top)
        shown = [(self.names[at], float(self.contributions[at])) for at in order]
        left_out = len(self.names) - len(order)
        rest = float(self.contributions.sum() - self.contributions[order].sum())
        return [*shown, *([(f"{left_out} other features", rest)] if left_out else []), *self.others.items()]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Return the explanation as JSON values; the features are sorted by absolute contribution, largest first.

        Args:
            top: maximum number of features; None for all features.
        """
        features = [
            {
                "feature": self.names[at],
                "contribution": float(self.contributions[at]),
                "values": self.shown_values(at),
                "loss_without": float(self.losses[at]),
            }
            for at in self.order(top)
        ]
        pair = zip(self.documents, self.ranks, self.scores, self.labels, strict=True)
        documents = [dict(zip(("document", "rank", "score", "label"), each, strict=True)) for each in pair]
        about = {
            "query": self.query,
            "documents": documents,
            "gap": self.gap,
            "method": self.method,
            "error": self.error,
        }
        return {**about, "metric": self.metric, "value": self.value, "features": features, "others": self.others}

    def to_frame(self) -> Any:
        """Return a data frame (pandas or polars) with one row per feature, the largest absolute contribution first."""
        order = self.order()
        columns: dict[str, Any] = {"feature": [self.names[at] for at in order]}
        columns |= {"contribution": self.contributions[order]}
        for place, name in enumerate(self.documents):
            columns[f"value of {name}"] = [self.shown_values(at)[place] for at in order]
        return frame(columns | {f"loss of {self.metric} without": self.losses[order]})

    def header(self) -> list[str]:
        """Return the lines above the table of an explanation: the metric of the list and the two documents."""
        lines = [f"query {self.query}, {self.metric} {self.value:.4f}"]
        pair = zip("AB", self.documents, self.ranks, self.scores, self.labels, strict=True)
        for letter, document, rank, score, label in pair:
            lines.append(f"{letter}: {document}, rank {rank}, score {score:.4f}, label {label:g}")
        return lines

    def rows(self, top: int | None = None) -> list[tuple[str, ...]]:
        """Return the table of an explanation as text: a header, then one row per term.

        Args:
            top: maximum number of features; None for all features.
        """
        order = self.order(top)
        rows: list[tuple[str, ...]] = [("feature", "score A - B", "A", "B", f"loss of {self.metric}")]
        for place, (name, part) in enumerate(self.terms(top)):
            cells = ("", "", "")  # the last terms are not features
            if place < len(order):
                at = order[place]
                one, other = (_cell(value) for value in self.shown_values(at))
                cells = (one, other, _signed(self.losses[at]))
            rows.append((name, _signed(part), *cells))
        return rows

    def footer(self) -> list[str]:
        """Return the lines below the table of an explanation, which say what the columns mean."""
        accuracy = f", with a total error of at most {self.error:.1g}" if self.error > 1e-5 else ""
        category = ", and a category by a missing value" if self.categories else ""
        without = f"decrease of the metric if the feature is replaced by its mean in the list{category}"
        return [
            f"The contributions to score A - B sum to {self.gap:+.4f} ({self.method}{accuracy}).",
            f"loss of {self.metric}: {without}.",
        ]

    def __str__(self) -> str:
        """Return the explanation as a text with a table, as `rankgrad explain` prints it without bars."""
        return "\n".join([*self.header(), *aligned(self.rows(_ROWS), str.rjust), *self.footer()])


def explain_list(
    model: "TrainedModel", data: Dataset, query: Any, documents: Sequence[Any] | None, metric: Any
) -> ListExplanation:
    """Explain two documents of one list; see `TrainedModel.explain`.

    Args:
        model: trained model.
        data: labelled lists.
        query: query id of the list, or `<query id>/<list id>` if queries have several lists.
        documents: ids of two documents, or positions in the list from 1; None for the documents with ranks 1 and 2.
        metric: spec or object of the metric.
    """
    from rankgrad.metrics.custom import as_metric

    measured = as_metric(metric)
    one = recode(data.take([_list_of(data, str(query))]).select_features(model.feature_names), model.categories)
    one = replace(one, features=dense(one.features))
    if len(one.labels) < 2:
        bad_value("the query", "have at least two documents", len(one.labels))
    scores = model.score_lists(one).astype(np.float64)
    ranking = np.argsort(-scores, kind="stable")
    first, second = ranking[:2].tolist() if documents is None else _positions(documents, one)
    found = model.contributions(one.features, first, second)
    error = abs(found.values.sum() + sum(found.others.values()) - (scores[first] - scores[second]))
    if not error <= _EXACT * max(1.0, float(np.abs(scores[[first, second]]).max())):
        must = "compute contributions that sum to the difference of the scores"
        bad_value("model", must, f"a sum that differs by {error:.2g}")
    value, losses = _without_features(model, one, scores, measured)
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[ranking] = np.arange(1, len(scores) + 1)
    pair = [first, second]
    return ListExplanation(
        query=str(query),
        documents=(_name(one, first), _name(one, second)),
        labels=(float(one.labels[first]), float(one.labels[second])),
        ranks=(int(ranks[first]), int(ranks[second])),
        scores=(float(scores[first]), float(scores[second])),
        names=feature_names(model, one),
        contributions=found.values,
        others=found.others,
        values=one.features[pair],
        method=found.method,
        error=found.error,
        metric=str(measured),
        value=value,
        losses=losses,
        categories=one.categories,
    )


def _list_of(data: Dataset, query: str) -> int:
    """Return the index of the list of a query. If the query has several lists, `query` is the name of one of them."""
    named = [place for place, name in enumerate(data.list_names) if name == query]
    places = named or [place for place, qid in enumerate(data.qids.tolist()) if str(qid) == query]
    if not places:
        bad_value("query", "be the id of a query in the data", *mistyped(query, map(str, data.qids.tolist())))
    if len(places) > 1 and data.list_ids is not None:
        some = ", ".join(repr(data.list_names[place]) for place in places[:3])
        bad_value(
            "query", "name one list, as <query id>/<list id>", f"{query!r}, which has {len(places)} lists: {some}"
        )
    return places[0]


def _without_features(
    model: "TrainedModel", one: Dataset, scores: NDArray[np.float64], metric: Any
) -> tuple[float, NDArray[np.float64]]:
    """Return the metric of the explained list, and how much worse it is without each feature, `(features,)`.

    "Without" means: all values of the feature are replaced by their mean in the list. Categories have no mean, so all
    values of a categorical feature are replaced by a missing value.
    """

    def value(scores: Any) -> float:
        return float(next(iter(evaluate_lists(scores, one, [metric], bootstrap=0).values.values()))[0])

    features = np.array(one.features, dtype=np.float32)
    whole, sign = value(scores), 1.0 if metric.higher_is_better else -1.0
    losses = np.zeros(features.shape[1])
    for column in range(features.shape[1]):
        kept = features[:, column].copy()
        known = kept[~np.isnan(kept)]
        categorical = column in (one.categories or {})
        if len(known) and (categorical or not (kept == kept[0]).all()):
            features[:, column] = np.nan if categorical else known.mean(dtype=np.float64)
            losses[column] = sign * (whole - value(model.score_lists(replace(one, features=features))))
            features[:, column] = kept
    return whole, losses


def _signed(value: float) -> str:
    """Return a number with its sign, or 0 if all printed digits are 0, or nan."""
    if np.isnan(value):
        return "nan"
    return f"{value:+.4f}" if abs(value) >= 5e-5 else "0"


def _cell(value: float | str | None) -> str:
    return value if isinstance(value, str) else "missing" if value is None else f"{value:.4g}"


def _positions(documents: Sequence[Any], one: Dataset) -> list[int]:
    """Return the positions of the explained documents in a list, from their ids or their positions from 1."""
    if len(documents) != 2:
        bad_value("documents", "be two documents", f"{len(documents)} documents")
    ids = [] if one.docids is None else [str(each) for each in one.docids.tolist()]
    places = []
    for document in map(str, documents):
        if document in ids:
            places.append(ids.index(document))
        elif document.isascii() and document.isdigit() and 1 <= int(document) <= len(one.labels):
            places.append(int(document) - 1)
        else:
            must = f"be ids of documents of the list, or positions from 1 to {len(one.labels)}"
            bad_value("documents", must, *mistyped(document, ids))
    if places[0] == places[1]:
        bad_value("documents", "be two different documents", f"{documents[0]} twice")
    return places


def _name(one: Dataset, place: int) -> str:
    return f"document {place + 1}" if one.docids is None else str(one.docids[place])
