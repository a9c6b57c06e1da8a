"""Estimator that blends fitted rankers; `rankgrad.models.blend` contains the model of the estimator."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from rankgrad.data.dataset import Categories, Dataset
from rankgrad.errors import bad_type, bad_value
from rankgrad.estimators.neural import Ranker
from rankgrad.estimators.rows import RowRanker, in_order_of, row_weights
from rankgrad.models.aligned_model import aligned
from rankgrad.models.blend import KIND, BlendModel, check_blend_loss, fit_weights, parts_of, read_blend, write_blend
from rankgrad.models.calibration import read_calibration, write_calibration
from rankgrad.models.folder import CONFIG, check_no_run, read_config
from rankgrad.models.protocol import Contributions, TrainedModel
from rankgrad.settings.schema import store
from rankgrad.trees import TreeRanker
from rankgrad.trees.model import KIND as TREES


def blend(rankers: Sequence[Any], *, loss: str = "xe_ndcg", even: float = 0.1) -> "Blend":
    """Return an estimator that blends fitted rankers. Fit this estimator on lists on which no ranker was trained.

    Args:
        rankers: fitted rankers (`rankgrad.Ranker`, `TreeRanker` or blends), or other fitted estimators whose `predict`
            returns one number per row, such as `sklearn.linear_model.LinearRegression`. All must have the same
            features.
        loss: spec of the loss that the weights minimise.
        even: strength of the preference for equal weights; useful if there are few lists.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.normal(size=(120, 2)), np.repeat(np.arange(12), 10)
        >>> y = (X[:, 0] > 0).astype(int)
        >>> parts = [Ranker(model="linear", epochs=5, lr=0.1, seed=s).fit(X[:60], y[:60], qid=qid[:60]) for s in (0, 1)]
        >>> both = blend(parts).fit(X[60:], y[60:], qid=qid[60:])
        >>> float(both.weights_.sum().round(6)), both.predict(X, qid).shape
        (1.0, (120,))
    """
    return Blend(rankers, loss=loss, even=even)


class Blend(RowRanker):
    """Estimator that `blend` returns. `fit` sets `model_` and `weights_` (one weight per ranker, at least 0, sum 1)."""

    def __init__(self, rankers: Sequence[Any], *, loss: str = "xe_ndcg", even: float = 0.1) -> None:
        store(self, locals())

    @property
    def _takes_nan(self) -> bool:  # type: ignore[override]
        return all(_takes_nan(ranker) for ranker in self.rankers)

    def fit(
        self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None, list_id: Any = None
    ) -> "Blend":
        """Fit the weights of a blend on labelled lists. The rankers do not change. For arguments, see `Ranker.fit`."""
        loss = check_blend_loss(self.loss, self.even)
        if not self.rankers:
            bad_value("rankers", "contain at least one ranker", "none")
        for ranker in self.rankers:
            _check_ranker(ranker)
        self.__dict__.pop("model_", None)
        names = [
            each.feature_names_in_ for each in self.rankers if getattr(each, "feature_names_in_", None) is not None
        ]
        X = in_order_of(X, names[0] if names else None)
        data, rows = super()._lists(X, y, qid, group, list_id, reset=True)
        data = _with_caller(data, X, rows)
        weights = None
        if sample_weight is not None:
            if not loss.takes_weights:
                bad_value("sample_weight", f"be None for {self.loss}, which takes no weights", "weights")
            weights = row_weights(sample_weight, rows)
        self._take(fit_weights(self._models(), data, loss, self.even, weights))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the blend as a folder with `config.json` and one folder per ranker, which the ranker's `save` writes.

        A blend with estimators that are not rankers of rankgrad cannot be saved, because the folder must not contain
        code. Use `joblib` for such a blend.
        """
        check_is_fitted(self)
        if others := self._others():
            must = "all be rankers of rankgrad if the blend is saved (TreeRanker.from_booster makes one of a model of "
            must += "LightGBM or XGBoost; joblib.dump writes other estimators)"
            bad_value("rankers", must, ", ".join(others))
        check_no_run(folder)
        folder = Path(folder)
        for place, ranker in enumerate(self.rankers, 1):
            ranker.save(folder / f"part-{place}")
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else [*map(str, names)]
        write_blend(folder, self.weights_, {"loss": self.loss, "even": float(self.even)}, names, self.categories_)
        write_calibration(folder, self.model_.calibration)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Blend":
        """Load a fitted blend from a folder that `save` wrote. Nothing in the folder is run or unpickled."""
        weights, settings = read_blend(Path(folder))
        kinds: dict[str, Any] = {TREES: TreeRanker, KIND: cls}
        rankers = [
            kinds.get(read_config(part).get("kind", ""), Ranker).load(part) for part in parts_of(folder, len(weights))
        ]
        try:
            made = cls(rankers, **settings)
        except TypeError as error:
            bad_value(str(Path(folder) / CONFIG), "contain settings of a blend", f"the error {error}")
        made._take(BlendModel([ranker.model_ for ranker in rankers], weights, settings))
        made._take_columns(made.model_.feature_names)
        made.model_.calibration = read_calibration(folder)
        return made

    def _find_categories(self, X: Any) -> Categories | None:
        """Return the categories of the fitted rankers in the blend, or of X if all rankers are other estimators."""
        ours = [ranker.model_ for ranker in self.rankers if isinstance(ranker, RowRanker)]
        return aligned(ours)[0].categories if ours else super()._find_categories(X)

    def _lists(self, X: Any, *labels: Any, **options: Any) -> tuple[Dataset, NDArray[np.int64]]:
        data, rows = super()._lists(X, *labels, **options)
        return _with_caller(data, X, rows), rows

    def _checked(self, X: Any) -> Any:
        checked = super()._checked(X)
        return _rows_of_caller(checked, X, np.arange(len(checked))) if isinstance(checked, np.ndarray) else checked

    def _grouped(self, X: Any, *lists: Any) -> tuple[Dataset, NDArray[np.int64]]:
        data, rows = super()._grouped(X, *lists)
        return (_with_caller(data, X.caller, rows) if isinstance(X, CallerRows) else data), rows

    def _models(self) -> list[TrainedModel]:
        names = getattr(self, "feature_names_in_", None)
        return [
            ranker.model_
            if isinstance(ranker, RowRanker)
            else EstimatorModel(ranker, self.n_features_in_, names, self.categories_)
            for ranker in self.rankers
        ]

    def _others(self) -> list[str]:
        """Return the class names of estimators in a blend, also nested, that are not rankers of rankgrad."""
        found = []
        for ranker in self.rankers:
            found += ranker._others() if isinstance(ranker, Blend) else []
            found += [] if isinstance(ranker, RowRanker) else [type(ranker).__name__]
        return found

    def _take(self, model: "BlendModel") -> None:
        self.model_, self.weights_ = model, model.weights

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        bad_value("qid or group", "be given, because a blend standardises scores per list", "neither")

    def __sklearn_clone__(self) -> "Blend":
        return Blend(self.rankers, loss=self.loss, even=self.even)  # the rankers are parameters, and stay fitted


class CallerRows(np.ndarray[Any, np.dtype[np.float32]]):
    """Features of documents that remember the X that the caller of a blend passed. A copy or a part does not remember.

    `caller` is X, and `order` contains the row in X of each document. Other estimators of the blend receive X itself,
    because its categories are not encoded.
    """

    caller: Any = None
    order: NDArray[np.int64]


def _rows_of_caller(features: NDArray[np.float32], X: Any, order: NDArray[np.int64]) -> CallerRows:
    rows = features.view(CallerRows)
    rows.caller, rows.order = X, order
    return rows


def _with_caller(data: Dataset, X: Any, order: NDArray[np.int64]) -> Dataset:
    """Return the lists of a blend with features that remember X; sparse features do not change."""
    if not isinstance(data.features, np.ndarray):
        return data
    return replace(data, features=_rows_of_caller(data.features, X, order))


class EstimatorModel(TrainedModel):
    """Model of a blend that is not a ranker of rankgrad: an estimator whose predictions are the scores.

    Args:
        estimator: fitted estimator; `predict` returns one number per row.
        features: number of features; used only if the estimator has no `n_features_in_`.
        names: names of the features that `score` receives; None if unknown.
        categories: categories of the categorical features that `score` receives; None if there are no such features.
    """

    def __init__(
        self,
        estimator: Any,
        features: int,
        names: NDArray[Any] | None = None,
        categories: Categories | None = None,
    ) -> None:
        self.estimator, self.settings, self.metrics, self.history = estimator, {}, {}, []
        self.features, self.categories = int(getattr(estimator, "n_features_in_", features)), categories
        self._names = getattr(estimator, "feature_names_in_", None)  # None if it was not fitted on a data frame
        if self._names is not None and names is not None and self._names.tolist() != names.tolist():
            must = f"have the features of X, {', '.join(map(str, names))}"
            bad_value(type(estimator).__name__, must, ", ".join(map(str, self._names)))

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Return the predictions of the estimator as scores, `(documents,)`.

        Args:
            features: features of the documents, `(documents, f)`.
            offsets: ignored, because a prediction depends on one row only.
        """
        caller: Any = getattr(features, "caller", None)
        if self._names is not None and hasattr(caller, "columns"):
            X = caller.select([*self._names]) if hasattr(caller, "select") else caller[[*self._names]]
            return self._predict(X)[features.order]
        if self.categories:
            name = type(self.estimator).__name__
            must = (
                f"be the rows of a data frame for {name}, because other rankers of the blend have categorical columns"
            )
            bad_value("X", must, "an array, or encoded or changed rows")
        X = np.asarray(features)
        if self._names is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=self._names)
        return self._predict(X)

    def _predict(self, X: Any) -> NDArray[np.float32]:
        scores, name = np.asarray(self.estimator.predict(X)), type(self.estimator).__name__
        if scores.shape != (len(X),) or scores.dtype.kind not in "fiub":
            got = f"an array of {scores.dtype} with the shape {scores.shape}"
            bad_value(f"predict of {name}", f"return {len(X)} numbers, one per row", got)
        return scores.astype(np.float32)

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Raise an error, because the contributions of another estimator are unknown.

        Args:
            features, first, second: as in `TrainedModel.contributions`.
        """
        must = "be rankers of rankgrad (TreeRanker.from_booster makes one of a model of LightGBM or XGBoost)"
        bad_value("rankers of a blend that is explained", must, type(self.estimator).__name__)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Raise an error, because the folder of a blend must not contain the code of other estimators.

        Args:
            folder: folder of the model.
        """
        must = "be a ranker of rankgrad if it is saved (joblib.dump can write other estimators)"
        bad_value("model", must, type(self.estimator).__name__)


def _check_ranker(ranker: Any) -> None:
    """Check that a ranker of a blend is a fitted estimator with `predict`."""
    if isinstance(ranker, type) or not callable(getattr(ranker, "predict", None)):
        got = ranker.__name__ if isinstance(ranker, type) else type(ranker).__name__
        loaded = "Ranker.load, TreeRanker.load and TreeRanker.from_booster return rankers"
        hint = f" ({loaded})" if isinstance(ranker, TrainedModel) else ""
        bad_type("rankers", f"be fitted rankers{hint}, or fitted estimators with a method predict", got)
    if hasattr(ranker, "fit"):
        check_is_fitted(ranker)


def _takes_nan(ranker: Any) -> bool:
    if isinstance(ranker, RowRanker):
        return ranker._takes_nan
    return isinstance(ranker, BaseEstimator) and bool(get_tags(ranker).input_tags.allow_nan)
