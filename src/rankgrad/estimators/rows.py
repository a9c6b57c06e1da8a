"""Base class of the estimators. It groups rows into lists by query, and returns scores in the order of the rows."""

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from rankgrad.atomic_files import read_json, write_json
from rankgrad.data import Dataset, from_arrays
from rankgrad.data.dataset import Categories
from rankgrad.data.frame_categories import check_labels, column_names, encode_categories, fit_categories
from rankgrad.data.frames import row_columns, row_ids
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.data.splitting import held_out
from rankgrad.data.tables.errors import blanks_of_lightgbm, some, warn_empty
from rankgrad.errors import bad_value, located
from rankgrad.fit_arguments import with_hints
from rankgrad.metrics import ndcg
from rankgrad.models.calibration import calibration_of, read_calibration

if TYPE_CHECKING:
    from rankgrad.models.explanation import ListExplanation
    from rankgrad.models.feature_importance import FeatureImportance

_ROUTING = (
    "call sklearn.set_config(enable_metadata_routing=True), "
    "and call set_fit_request(qid=True) and set_score_request(qid=True) of the ranker"
)
_NO_SCORE = f"scikit-learn must pass qid to score ({_ROUTING}); got no qid, because metadata routing is not enabled"
ESTIMATOR = "estimator.json"  # file in the folder of the model, with values that only the estimator has


def _is_calibrated(ranker: "RowRanker") -> bool:
    check_is_fitted(ranker)
    try:
        calibration_of(ranker.model_)
    except ValueError as error:
        raise AttributeError(str(error)) from error
    return True


class RowRanker(BaseEstimator):
    """Base class of estimators. `model_.score(features, offsets)` returns one score per document."""

    model_: Any
    holdout: float
    categories_: Categories | None = None  # categories of the categorical columns, by column
    _takes_nan = False  # True if X may contain NaN for missing values
    _eval_set_use = "selects the epoch"  # effect of the first evaluation set, for a warning

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in cls.__dict__:
            cls.fit = with_hints(cls.__dict__["fit"])

    def predict(self, X: Any, qid: Any = None, group: Any = None, list_id: Any = None) -> NDArray[np.float32]:
        """Return one score per row, in the order of the rows. Only scores of the same list can be compared.

        Args:
            X: features, `(rows, f)`, as in `fit`; or a sparse matrix of SciPy.
            qid, group, list_id: the lists, as in `fit`. They are needed only if a score depends on the other documents
                of the list, as with the ranker `context_aware`, the preprocessing `standardise_per_query` and a blend.
        """
        check_is_fitted(self)
        X = self._checked(X)
        if qid is None and group is None and list_id is None:
            return self._score_rows(X)
        data, rows = self._grouped(X, np.zeros(X.shape[0]), qid, group, list_id)
        scores = np.empty(len(rows), dtype=np.float32)
        scores[rows] = self.model_.score(data.features, data.offsets)
        return scores

    def calibrate(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        group: Any = None,
        *,
        method: str = "platt",
        target: str = "binary",
        threshold: float = 0.0,
        list_id: Any = None,
    ) -> "RowRanker":
        """Calibrate the estimator: fit functions from scores to probabilities on held-out lists. Return the estimator.

        `predict` and the order of the documents do not change; `predict_proba` and `predict_calibrated` become
        available.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)` of lists on which the ranker was not trained.
            qid, group, list_id: the lists, as in `fit`.
            method: `"platt"` (logistic) or `"isotonic"`.
            target: `"binary"`: the probability that the label is above `threshold`. `"grade"`: the probability of each
                grade, and the expected grade.
            threshold: threshold of the labels, for the target `"binary"`.
        """
        check_is_fitted(self)
        data = self._lists(X, y, qid, group, list_id, reset=False)[0]
        self.model_.calibrate(data, method=method, target=target, threshold=threshold)
        return self

    @available_if(_is_calibrated)
    def predict_calibrated(
        self, X: Any, qid: Any = None, group: Any = None, list_id: Any = None
    ) -> NDArray[np.float64]:
        """Return one calibrated value per row: the probability of relevance, or the expected grade.

        Args:
            X: features, `(rows, f)`.
            qid, group, list_id: lists, as in `predict`.
        """
        return calibration_of(self.model_).values(self.predict(X, qid, group, list_id))

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any, qid: Any = None, group: Any = None, list_id: Any = None) -> NDArray[np.float64]:
        """Return the probability of each grade, `(rows, grades)`.

        For the target `"binary"`, there are two columns: the probabilities that a document is not relevant, and that it
        is relevant. For the target `"grade"`, `model_.calibration.grades` contains the grade of each column.

        Args:
            X: features, `(rows, f)`.
            qid, group, list_id: lists, as in `predict`.
        """
        return calibration_of(self.model_).probabilities(self.predict(X, qid, group, list_id))

    def score(
        self, X: Any, y: Any, qid: Any = None, group: Any = None, sample_weight: Any = None, list_id: Any = None
    ) -> float:
        """Return the mean nDCG@10 of the estimator (gain 2^y - 1). A list without a relevant document has the value 0.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)`.
            qid, group, list_id: the lists, as in `fit`.
            sample_weight: weights of the rows, `(rows,)`; the weight of a list is the mean weight of its rows.
        """
        check_is_fitted(self)
        if qid is None and group is None and _is_scikit_learn(_caller()):
            # A search catches the error below, and continues with NaN as the score.
            warnings.warn(_NO_SCORE, stacklevel=2)
        data, rows = self._lists(X, y, qid, group, list_id, reset=False)
        scores = self.model_.score(data.features, data.offsets)
        values = ndcg(scores, data.labels, offsets=data.offsets, k=10, reduction="none").cpu().numpy()
        if sample_weight is None and data.list_ids is None:
            return float(values.mean())
        shares = 1.0 / np.bincount(data.first_lists)[data.first_lists]  # all lists of a query together have the share 1
        if sample_weight is not None:
            owner = np.repeat(np.arange(len(data)), data.lengths)
            sums = np.bincount(owner, row_weights(sample_weight, rows), minlength=len(data))
            shares *= sums / np.maximum(data.lengths, 1)
        return float(np.average(values, weights=shares))

    def _keep(self, folder: Path) -> None:
        """Write `estimator.json`, which contains the values of the estimator that the model does not have."""
        names = getattr(self, "feature_names_in_", None)
        known = {"feature_names": None if names is None else names.tolist(), "holdout": float(self.holdout)}
        write_json(folder / ESTIMATOR, known, seal=True)

    def _take_kept(self, folder: Path) -> None:
        """Read the calibration and `estimator.json`. If a command trained the model, there is no `estimator.json`."""
        self.model_.calibration = read_calibration(folder)
        path = folder / ESTIMATOR
        known = read_json(path) if path.is_file() else {}
        self.holdout, names = known.get("holdout", self.holdout), known.get("feature_names")
        names = self.model_.feature_names if names is None else names
        if isinstance(self.holdout, bool) or not isinstance(self.holdout, int | float):
            bad_value(str(path), "contain a number as holdout", repr(self.holdout))
        if names is not None and (not isinstance(names, list | tuple) or len(names) != self.model_.features):
            got = len(names) if isinstance(names, list | tuple) else repr(names)
            bad_value(str(path), f"contain {self.model_.features} feature names", got)
        self._take_columns(names)

    def _take_columns(self, names: Sequence[str] | None) -> None:
        """Take the number of the features and the categories from the fitted model, and their names if known."""
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_, self.categories_ = self.model_.features, self.model_.categories

    def rank(self, X: Any, qid: Any = None, group: Any = None, list_id: Any = None) -> NDArray[np.int64]:
        """Return the rank of each row in its list, from 1; if two scores are equal, the earlier row ranks first.

        Args:
            X: features, `(rows, f)`.
            qid, group, list_id: the lists, as in `fit`.
        """
        check_is_fitted(self)
        check_lists_given(qid, group)
        X = self._checked(X)
        data, rows = self._grouped(X, np.zeros(X.shape[0]), qid, group, list_id)
        owner = np.repeat(np.arange(len(data)), data.lengths)
        scores = self.model_.score(data.features, data.offsets)
        best_first = np.lexsort((-scores, owner))  # a stable sort, by list and then by score
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[rows[best_first]] = np.arange(len(rows)) - data.offsets[owner] + 1
        return ranks

    def feature_importance(
        self,
        X: Any = None,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        metric: Any = "nDCG@10",
        method: str = "permutation",
        repeats: int = 5,
        seed: int = 0,
        within_lists: bool = False,
        list_id: Any = None,
    ) -> "FeatureImportance":
        """Measure how much the ranker depends on each feature; see `rankgrad.models.feature_importance`.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)` of lists on which the ranker was not trained; not needed for
                `"gain"` and `"split"`.
            qid, group, list_id: the lists, as in `fit`.
            metric: spec or object of the metric, for `"permutation"`.
            method: `"permutation"`; for trees also `"gain"` and `"split"`; for neural rankers also `"gradient"`.
            repeats: number of shuffles per feature.
            seed: random seed of the shuffles.
            within_lists: True to shuffle a feature within each list; False to shuffle it over all documents.
        """
        check_is_fitted(self)
        data = None if X is None else self._lists(X, y, qid, group, list_id, reset=False)[0]
        shuffles = {"repeats": repeats, "seed": seed, "within_lists": within_lists}
        found: FeatureImportance = self.model_.feature_importance(data, metric, method=method, **shuffles)
        return found

    def explain(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        group: Any = None,
        *,
        query: Any,
        documents: Any = None,
        docids: Any = None,
        metric: Any = "nDCG@10",
        list_id: Any = None,
    ) -> "ListExplanation":
        """Explain the scores of two documents of one list, feature by feature; see `rankgrad.models.explanation`.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)`.
            qid, group, list_id: the lists, as in `fit`.
            query: query id of the list.
            documents: two documents, by their ids in `docids` or by their positions in the list, from 1; None for the
                documents with ranks 1 and 2.
            docids: document id of each row, `(rows,)`.
            metric: spec or object of the metric. For each feature, the explanation has the decrease of this metric if
                the feature is replaced by its mean in the list. A category is replaced by a missing value.
        """
        check_is_fitted(self)
        data, rows = self._lists(X, y, qid, group, list_id, reset=False)
        if docids is not None:
            data = replace(data, docids=row_ids(docids, len(rows))[rows])
        found: ListExplanation = self.model_.explain(data, query, documents, metric=metric)
        return found

    def _lists(
        self, X: Any, y: Any, qid: Any, group: Any, list_id: Any = None, *, reset: bool, init_model: Any = None
    ) -> tuple[Dataset, NDArray[np.int64]]:
        """Check the rows of X and y, and group them into lists. Return lists, and the row number of each document.

        If `reset` is True, the rows are training rows. They get the order of columns and the categorical columns of
        `init_model`, if this is not None.
        """
        if reset:
            X = in_order_of(X, getattr(init_model, "feature_names", None))
            known = getattr(init_model, "categories", None)
            given = getattr(self, "categorical", None)
            self.categories_ = fit_categories(X, given, known) if known else self._find_categories(X)
        X = encode_categories(X if reset else self._matched(X), self.categories_)
        check_labels(y)
        X, y = validate_data(self, X, y, y_numeric=True, reset=reset, **self._how())
        self._check_numbers(X)
        check_lists_given(qid, group)
        if reset:
            _check_search(self, _caller())
        else:
            warn_empty(X, getattr(self, "feature_names_in_", None), self.categories_)
        return self._grouped(X, y, qid, group, list_id)

    def _grouped(self, X: Any, y: Any, qid: Any, group: Any, list_id: Any) -> tuple[Dataset, NDArray[np.int64]]:
        lists = {"qid": qid, "group": group, "list_id": list_id}
        data, rows = from_arrays(X, y, **lists, missing=np.nan if self._allows_nan else "error")
        names = getattr(self, "feature_names_in_", None)
        data = replace(data, categories=self.categories_)
        return (data if names is None else replace(data, feature_names=tuple(map(str, names)))), rows

    def _find_categories(self, X: Any) -> Categories | None:
        """Return the categories of the categorical columns of X, the training rows of the estimator."""
        return fit_categories(X, getattr(self, "categorical", None))

    def _checked(self, X: Any) -> Any:
        """Check the rows X that `predict` receives, and return them as an array or a sparse matrix of float32."""
        X = validate_data(self, encode_categories(self._matched(X), self.categories_), reset=False, **self._how())
        self._check_numbers(X)
        warn_empty(X, getattr(self, "feature_names_in_", None), self.categories_)
        return X

    @property
    def _allows_nan(self) -> bool:
        """True if X may contain NaN after the categories are encoded; an unknown category is encoded as NaN."""
        return self._takes_nan or bool(self.categories_)

    def _check_numbers(self, X: Any) -> None:
        """Raise an error if a numerical column of X has NaN, and the estimator takes no missing values."""
        if self._takes_nan:
            return
        columns = np.unique(X.indices[np.isnan(X.data)]) if is_sparse(X) else np.flatnonzero(np.isnan(X).any(axis=0))
        if bad := [int(column) for column in columns if column not in (self.categories_ or {})]:
            names = getattr(self, "feature_names_in_", None)
            advice = " (or set missing to 'zero', 'mean' or 'indicator')" if hasattr(self, "missing") else ""
            at = f"column {bad[0]}" if names is None else repr(str(names[bad[0]]))
            bad_value("X", f"not contain NaN{advice}", f"NaN in {at}")

    def _matched(self, X: Any) -> Any:
        """Return X with the columns of `fit`, in that order, if X has column names. A missing column is an error."""
        names = getattr(self, "feature_names_in_", None)
        columns = column_names(X)
        if names is None or columns is None or columns == [*names]:
            return X
        given = {*columns}
        if missing := [name for name in names if name not in given]:
            bad_value(
                "X",
                f"have the {len(names)} columns of `fit`",
                f"no column {some(missing)}{blanks_of_lightgbm(missing, given)}",
            )
        if extra := [name for name in columns if name not in {*names}]:
            warnings.warn(f"X has columns that the ranker does not use: {some(extra)}", stacklevel=4)
        return _selected(X, names)

    def _how(self) -> dict[str, Any]:
        # `_check_numbers` finds NaN where it is not allowed.
        return {"dtype": np.float32, "ensure_all_finite": "allow-nan", "accept_sparse": "csr"}

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return scores of rows whose lists are unknown. If a score depends on the complete list, raise an error."""
        scores: NDArray[np.float32] = self.model_.score(X)
        return scores

    def _validation(self, eval_set: Any, qid: Any, group: Any, list_id: Any = None) -> Dataset | None:
        sets = listed_eval_sets(eval_set)
        if not sets:
            return None
        if len(sets) > 1:
            warnings.warn(
                f"eval_set contains {len(sets)} sets: the first set {self._eval_set_use}, the other sets are ignored",
                stacklevel=3,
            )
        if (qid is None) == (group is None):
            bad_value("exactly one of eval_qid and eval_group", "be given", "neither" if qid is None else "both")
        try:
            lists = [_first(each, len(sets)) for each in (qid, group, list_id)]
            return self._lists(*sets[0], *lists, reset=False)[0]
        except (ValueError, TypeError) as error:
            raise located(error, "eval_set") from error

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = self._takes_nan
        tags.input_tags.sparse = True
        return tags


def _selected(X: Any, names: Iterable[Any]) -> Any:
    return X.select([*names]) if hasattr(X, "select") else X[[*names]]


def in_order_of(X: Any, names: Sequence[str] | None) -> Any:
    """Return X with its columns in the order of `names`, if these are the names of its columns.

    Args:
        X: array or data frame of an estimator.
        names: names of columns, or None.
    """
    columns = column_names(X)
    if names is None or columns is None or columns == [*names] or {*columns} != {*names}:
        return X
    return _selected(X, names)


def check_lists_given(qid: Any, group: Any) -> None:
    """Raise an error if an estimator gets neither `qid` nor `group`."""
    if qid is None and group is None:
        must = f"be given, because ranking is per list (in a search or pipeline of scikit-learn, {_ROUTING})"
        bad_value("qid or group", must, "neither")


def _check_search(ranker: BaseEstimator, caller: FrameType) -> None:
    """Raise an error if a search of scikit-learn calls `fit`, and will call `score` without query ids.

    The search would catch each error of `score`, and report NaN. The search also catches errors of `fit`, but it raises
    an error if all calls of `fit` fail.
    """
    if _is_scikit_learn(caller) and not get_config()["enable_metadata_routing"]:
        scorer = caller.f_locals.get("scorer")
        scorers = [scorer, *getattr(scorer, "_scorers", {}).values()]  # cross_val_score has a scorer of scorers
        if any(type(each) is type(check_scoring(ranker)) for each in scorers):  # a scorer that calls `score`
            raise ValueError(_NO_SCORE)


def _caller() -> FrameType:
    """Return the frame outside of this package that called an estimator."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "rankgrad":
        frame = frame.f_back
    return frame


def _is_scikit_learn(caller: FrameType) -> bool:
    return str(caller.f_globals.get("__name__")).partition(".")[0] == "sklearn"


def listed_eval_sets(eval_set: Any) -> list[tuple[Any, Any]]:
    """Return `eval_set` as a list of pairs `(X, y)`; `eval_set` may be one pair, or a list of pairs as in LightGBM."""
    if eval_set is None:
        return []
    one = isinstance(eval_set, tuple) and not all(isinstance(part, tuple) for part in eval_set)
    sets = [eval_set] if one else eval_set
    if not isinstance(sets, list | tuple) or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in sets):
        bad_value("eval_set", "be (X, y) or a list of such pairs", type(eval_set).__name__)
    return list(sets)


def _first(lists: Any, sets: int) -> Any:
    """Return `eval_qid` or `eval_group` of the first eval set. `lists` is of one set, or has one entry per set."""
    if not isinstance(lists, list | tuple) or not len(lists) or np.ndim(lists[0]) == 0:
        return lists
    if len(lists) != sets:
        bad_value("eval_qid or eval_group", f"have one entry per set of eval_set ({sets})", len(lists))
    return lists[0]


def row_weights(sample_weight: Any, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Check `sample_weight`, and return one weight per document, in the order of the documents in the lists."""
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != rows.shape:
        bad_value("sample_weight", f"have one value per row, ({len(rows)},)", weights.shape)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        bad_value("sample_weight", "be finite and at least 0", "NaN, infinite or negative weights")
    if not weights.any():
        bad_value("sample_weight", "contain a weight above 0", "only zeros")
    return weights[rows]


def with_weights(data: Dataset, sample_weight: Any, rows: NDArray[np.int64], training_columns: Any = None) -> Dataset:
    """Return the lists of an estimator with the document weights and the training columns of its rows, if given."""
    columns = {name: values[rows] for name, values in (row_columns(training_columns, len(rows)) or {}).items()}
    weights = None if sample_weight is None else row_weights(sample_weight, rows)
    return replace(data, weights=weights, columns=columns or None)


def hold_out_rows(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset | None]:
    """Hold out lists for the `fit` of an estimator. Return the training lists, and the held-out lists or None.

    Args:
        data: training lists.
        share: share of the lists to hold out; if this share rounds to 0 lists, no list is held out.
        seed: random seed of the choice of held-out lists.
    """
    kept, held = held_out(data, share, seed)
    return (data.take(kept), data.take(held)) if len(held) else (data, None)
