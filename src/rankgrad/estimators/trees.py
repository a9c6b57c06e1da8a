"""The estimator of boosted trees, with the interface of `rankgrad.Ranker`."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, cast

from sklearn.utils.validation import check_is_fitted

from rankgrad.errors import bad_value, name_settings, warn_caller
from rankgrad.estimators.rows import RowRanker, hold_out_rows, with_weights
from rankgrad.models.folder import CONFIG
from rankgrad.models.registry import kind_named
from rankgrad.run import Callback
from rankgrad.settings.schema import documented, store
from rankgrad.settings.trees import TreeSpec
from rankgrad.trees.model import TreeModel
from rankgrad.trees.parameters import own_names
from rankgrad.trees.settings import checked_trees

_Parameters = ParamSpec("_Parameters")


def _with_aliases(make: Callable[_Parameters, None]) -> Callable[_Parameters, None]:
    """Replace argument names of LightGBM and XGBoost by the names of `TreeRanker`; see `own_names`."""

    @functools.wraps(make)
    def made(*positional: _Parameters.args, **given: _Parameters.kwargs) -> None:
        make(*positional, **own_names(given))

    return made


@documented(TreeSpec)
class TreeRanker(RowRanker):
    """Fit boosted trees on rows with query ids, and predict one score per row; X may contain NaN.

    Args:
        framework: `"lightgbm"` or `"xgboost"`.
        loss: spec `name[@k][:key=value,...]`, or a function or module as in `rankgrad.Ranker`; `fit` does not change
            this object. `"native:NAME"` is an objective of the framework. NAME is lambdarank or rank_xendcg for
            LightGBM, and rank:ndcg, rank:pairwise or rank:map for XGBoost.
        holdout: share of the training lists that `fit` holds out for validation if `eval_set` is None.
        categorical: names or positions of the categorical columns, which may contain text. Columns with a categorical
            type are always categorical. The framework splits a categorical column by sets of categories.
        params: parameters of the framework, by the framework's names: `num_leaves`, `learning_rate`, `max_depth`, ...
            Other names of settings also work: `n_estimators` and `num_boost_round` for `trees`, `early_stopping_rounds`
            for `patience`, `random_state` for `seed`, and `n_jobs` for `threads`.

    `fit` sets `model_`, `history_` (one row per tree), `best_trees_` and `n_features_in_`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
        >>> y = (X[:, 0] > 0).astype(int)
        >>> ranker = TreeRanker(loss="lambdarank", trees=20, num_leaves=4).fit(X, y, qid=qid)
        >>> ranker.predict(X).shape, ranker.score(X, y, qid=qid) > 0.9
        ((600,), True)
    """

    _takes_nan = True

    @_with_aliases
    def __init__(
        self,
        framework: str = "lightgbm",
        loss: Any = "lambdarank",
        *,
        hessian: str | float = "auto",
        loss_lr: float | None = None,
        smooth: str | float | None = None,
        trees: int = 500,
        patience: int | None = 50,
        metric: Any = "nDCG@10",
        seed: int = 0,
        holdout: float = 0.2,
        threads: int | None = None,
        categorical: Sequence[Any] | None = None,
        **params: Any,
    ) -> None:
        store(self, locals())
        self._params = self.__dict__.pop("params")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings of the estimator of trees by name, including parameters of the framework.

        Args:
            deep: no effect, because no setting is an estimator.
        """
        return {**super().get_params(deep), **self._params}

    def set_params(self, **params: Any) -> "TreeRanker":
        """Change settings of trees, and return the estimator.

        Args:
            params: settings of `TreeRanker`, their aliases, or parameters of the framework, by name.
        """
        for name, value in own_names(params).items():
            if name in SETTINGS:
                setattr(self, name, value)
            else:
                self._params[name] = value
        return self

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        list_id: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_list_id: Any = None,
        training_columns: Mapping[str, Any] | None = None,
        init_model: Any = None,
        callbacks: Iterable[Callback] = (),
    ) -> "TreeRanker":
        """Train boosted trees on labelled lists.

        Args:
            X, y: features `(rows, f)` and labels `(rows,)`. X may be a sparse matrix of SciPy. NaN is a missing value.
            qid, group, list_id: query id per row, length of each list, list id per row, as in `rankgrad.Ranker.fit`.
            sample_weight: weights `(rows,)`, for losses that take weights.
            eval_set, eval_qid, eval_group, eval_list_id: validation lists, as in `rankgrad.Ranker.fit`. The metric on
                these lists determines the number of trees.
            training_columns: columns that only training uses, as in `rankgrad.Ranker.fit`.
            init_model: fitted `TreeRanker` of the same framework, its `model_`, or anything that
                `TreeModel.from_booster` accepts. `fit` adds `trees` trees to this model.
            callbacks: functions that are called with a row of `history_` after each tree. A true return value ends the
                training.
        """
        checked = checked_trees(self.get_params(deep=False))
        spec = checked.settings
        if isinstance(init_model, TreeRanker):
            check_is_fitted(init_model)
            init_model = init_model.model_
        if init_model is not None and not isinstance(init_model, TreeModel):
            init_model = TreeModel.from_booster(init_model)
        self.__dict__.pop("model_", None)
        data, rows = self._lists(X, y, qid, group, list_id, reset=True, init_model=init_model)
        data = with_weights(data, sample_weight, rows, training_columns)
        validation = self._validation(eval_set, eval_qid, eval_group, eval_list_id)
        if validation is None:
            data, validation = hold_out_rows(data, self.holdout, spec.seed)
            if validation is not None and init_model is not None and not init_model.settings:
                told = (
                    "the held-out lists choose the number of added trees, but init_model may have been trained on them"
                )
                warn_caller(f"{told}: give eval_set, or " + name_settings("set {holdout=0} to add all trees"))
        run: dict[str, Any] = {"progress": False, "callbacks": callbacks, "init_model": init_model}
        self._take(cast(TreeModel, kind_named(spec.framework).fit(checked, data, validation, **run)))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with `model.txt` (for LightGBM) or `model.json` (for XGBoost), and other JSON files.

        Args:
            folder: path of the folder.
        """
        check_is_fitted(self)
        self.model_.save(folder)
        self._keep(Path(folder))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "TreeRanker":
        """Read a fitted ranker from a folder that `save` or `rankgrad train` wrote. No content is run or unpickled.

        Args:
            folder: folder of the model; or a model file of LightGBM (text) or XGBoost (JSON), which may have been
                trained without rankgrad. Then the settings of the ranker are the defaults, except the framework.
        """
        ranker = cls._of(TreeModel.load(folder), Path(folder) / CONFIG)
        ranker._take_kept(Path(folder))
        return ranker

    @classmethod
    def from_booster(
        cls,
        booster: Any,
        *,
        feature_names: Sequence[str] | None = None,
        categorical: Sequence[Any] | None = None,
        zero_missing: bool = False,
    ) -> "TreeRanker":
        """Return a fitted ranker of a model that LightGBM or XGBoost trained without rankgrad.

        The settings of the ranker are the defaults, except the framework. It can be saved, or be a part of `rg.blend`.

        Args:
            booster, feature_names, categorical, zero_missing: as in `TreeModel.from_booster`.
        """
        options: dict[str, Any] = {"categorical": categorical, "zero_missing": zero_missing}
        model = TreeModel.from_booster(booster, feature_names=feature_names, **options)
        ranker = cls._of(model, Path(CONFIG))
        ranker._take_columns(model.feature_names)
        return ranker

    @classmethod
    def _of(cls, model: TreeModel, config: Path) -> "TreeRanker":
        """Return a ranker with a fitted model, and with the settings of the model."""
        settings = {"framework": model.framework, **model.settings}
        try:
            ranker = cls(**settings.pop("params", {}), **settings)
        except TypeError as error:
            bad_value(f"settings in {config}", "be settings of TreeRanker", f"the error: {error}")
        ranker._take(model)
        return ranker

    def _take(self, model: TreeModel) -> None:
        self.model_, self.history_, self.best_trees_ = model, model.history, model.metrics.get("trees")
        self.categories_ = model.categories  # with `init_model`, these are not the categories of X

    def plan(self) -> TreeSpec:
        """Check the settings, and return them as a `TreeSpec`."""
        spec: TreeSpec = checked_trees(self.get_params(deep=False)).settings
        return spec


SETTINGS = [name for name in inspect.signature(TreeRanker).parameters if name != "params"]
