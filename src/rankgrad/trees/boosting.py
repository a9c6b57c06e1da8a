"""From labelled lists to boosted trees: one course of training for both frameworks."""

import copy
import inspect
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_value, mistyped, one_of
from rankgrad.metrics import parse
from rankgrad.trees.model import TreeModel, framework
from rankgrad.trees.objective import Objective, objective

NATIVE = {"lightgbm": ("lambdarank", "rank_xendcg"), "xgboost": ("rank:ndcg", "rank:pairwise", "rank:map")}
PREFIX = "native:"

# Parameters of LightGBM that `TreeRanker` has under another name.
_OURS = {"num_iterations": "trees", "early_stopping_round": "patience", "objective": "loss", "num_threads": "threads"}
# Parameters of XGBoost that its estimator spells otherwise or does not spell out.
_XGBOOST = {
    "eta", "lambda", "alpha", "min_split_loss", "updater", "refresh_leaf", "process_type", "top_k", "feature_selector",
    "sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop", "seed_per_iteration", "validate_parameters",
    "max_cached_hist_node", "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
    "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
}  # fmt: skip

Weights = NDArray[np.float32] | None


class Plan(NamedTuple):
    """What a training run is told."""

    framework: str
    loss: Any  # text, `native:` and the framework's name for it, or a loss
    hessian: str | float
    loss_lr: float | None
    smooth: str | float | None
    trees: int
    patience: int | None
    metric: str
    seed: int
    threads: int
    params: dict[str, Any]  # as the framework takes them

    @property
    def native(self) -> str | None:
        """The framework's own objective, where the loss is one."""
        native = isinstance(self.loss, str) and self.loss.startswith(PREFIX)
        return self.loss.removeprefix(PREFIX) if native else None


def boost(plan: Plan, data: Dataset, validation: Dataset | None, weights: Weights = None) -> TreeModel:
    """Train trees; with validation lists, keep as many as their metric was best at.

    `weights` are one a document. A native objective of XGBoost takes one a list, which is then their mean.
    """
    own = None
    if plan.native is None:
        told = {name: getattr(plan, name) for name in ("hessian", "loss_lr", "smooth", "seed")}
        # A copy: what this run learns is not where the next one begins.
        own = objective(copy.deepcopy(plan.loss), plan.framework, **told)
        if weights is not None and not own.takes_weights:
            bad_value("sample_weight", f"be None for {own.loss}, which takes no weights", "weights")
    learned = getattr(own.loss, "learned", dict) if own is not None else dict
    judge = None if validation is None else _Judge(validation, plan.metric, learned)
    run = _lightgbm if plan.framework == "lightgbm" else _xgboost
    booster = run(plan, data, weights, own, judge)
    metrics: dict[str, Any] = {"trees": plan.trees if judge is None else judge.best}
    if judge is not None:
        metrics["validation"] = {plan.metric: judge.values[judge.best - 1]}
    scalars: dict[str, float] = learned()
    if scalars:
        kept = scalars if judge is None else judge.history[judge.best - 1]
        metrics["loss"] = {name: kept[name] for name in scalars}
    settings = plan._asdict() | {"loss": plan.loss if isinstance(plan.loss, str) else str(plan.loss)}
    history = judge.history if judge else []
    return TreeModel(booster, plan.framework, data.features.shape[1], settings, metrics, history)


def check_loss(plan: Plan) -> None:
    """Raise where it is none: text is parsed, a native one must be one that the framework has."""
    if plan.native is None:
        objective(plan.loss, plan.framework, hessian=plan.hessian, loss_lr=plan.loss_lr, smooth=plan.smooth)
        return
    one_of(f"loss after {PREFIX}", plan.native, NATIVE[plan.framework])
    for name in ("loss_lr", "smooth"):
        if (given := getattr(plan, name)) is not None:
            bad_value(name, "be None for a native objective", repr(given))


def check_params(params: dict[str, Any], framework: str) -> None:
    """Raise where the framework has no parameter of a name, which it would pass over, or where one is ours to give."""
    if not params:
        return
    try:
        names, said = _lightgbm_names() if framework == "lightgbm" else _xgboost_names()
    except (ImportError, AttributeError):  # not installed: training says so; or a version that keeps no such list
        return
    for name in params:
        if name in said:
            bad_value(name, f"be given as {said[name]}", f"{name}={params[name]!r}")
        if name not in names:
            bad_value("parameter", f"be one that {framework} has", mistyped(name, sorted(names)))


def _lightgbm_names() -> tuple[set[str], dict[str, str]]:
    """All names of LightGBM's parameters; and those for which there is another here."""
    from lightgbm.basic import _ConfigAliases

    known = _ConfigAliases._get_all_param_aliases()
    said = {alias: ours for theirs, ours in _OURS.items() for alias in (theirs, *known.get(theirs, ()))}
    return {*known, *(name for others in known.values() for name in others)}, said


def _xgboost_names() -> tuple[set[str], dict[str, str]]:
    """The names that XGBoost's own estimator takes, and those that only `xgboost.train` knows."""
    import xgboost

    return {*inspect.signature(xgboost.XGBModel.__init__).parameters, *_XGBOOST}, {}


class _Judge:
    """The metric of the house on the validation lists, after every tree, with what else is known then."""

    def __init__(self, data: Dataset, metric: str, learned: Callable[[], dict[str, float]]) -> None:
        self.data, self.name, self.metric, self.learned = data, metric, parse(metric), learned
        self.values: list[float] = []  # XGBoost keeps six digits of what it is told; these are whole
        self.history: list[dict[str, Any]] = []
        self.clock = time.perf_counter()

    def __call__(self, scores: NDArray[Any]) -> float:
        began = time.perf_counter()
        scores = np.asarray(scores, dtype=np.float32)  # as `predict` gives them: what ties there must tie here
        values = self.metric.measure(scores, self.data.labels, offsets=self.data.offsets, reduction="none")
        kept = values[~values.isnan()]
        self.values.append(float(kept.double().mean()) if len(kept) else 0.0)
        ended = time.perf_counter()
        row = {"tree": len(self.values), self.name: self.values[-1], **self.learned()}
        row |= {"seconds": round(began - self.clock, 4), "judge_seconds": round(ended - began, 4)}
        self.history.append(row)
        self.clock = ended
        return self.values[-1]

    @property
    def best(self) -> int:
        """How many trees were best."""
        return 1 + int(np.argmax(self.values) if self.metric.higher_is_better else np.argmin(self.values))


def _derivatives(own: Objective, data: Dataset, weights: Weights) -> Callable[[Any, Any], Any]:
    # Copies: maps of a file are read-only, which PyTorch warns of.
    labels, offsets = np.array(data.labels, dtype=np.float32), np.array(data.offsets, dtype=np.int64)

    def of(scores: Any, _: Any) -> Any:
        return own.derivatives(np.ascontiguousarray(scores, dtype=np.float32), labels, offsets, weights)

    return of


def _lightgbm(plan: Plan, data: Dataset, weights: Weights, own: Objective | None, judge: _Judge | None) -> Any:
    lgb = framework("lightgbm")
    params = {"verbosity": -1, "num_threads": plan.threads, "seed": plan.seed, **plan.params, "metric": "None"}
    params["objective"] = plan.native if own is None else _derivatives(own, data, weights)
    kept = {"params": {"verbosity": params["verbosity"]}, "free_raw_data": False}
    lists = lgb.Dataset(data.features, data.labels, group=_sizes(data), weight=weights, **kept)
    if judge is None:
        return lgb.train(params, lists, plan.trees)
    held = lgb.Dataset(judge.data.features, judge.data.labels, group=_sizes(judge.data), reference=lists, **kept)
    callbacks = [] if plan.patience is None else [lgb.early_stopping(plan.patience, verbose=False)]

    def value(scores: Any, _: Any) -> tuple[str, float, bool]:
        return plan.metric, judge(scores), judge.metric.higher_is_better

    booster = lgb.train(params, lists, plan.trees, valid_sets=[held], feval=value, callbacks=callbacks)
    # Cut to its best trees, so that it predicts and is written with these only.
    return lgb.Booster(model_str=booster.model_to_string(num_iteration=judge.best))


def _xgboost(plan: Plan, data: Dataset, weights: Weights, own: Objective | None, judge: _Judge | None) -> Any:
    xgb = framework("xgboost")
    params = {"nthread": plan.threads, "seed": plan.seed, "base_score": 0.0, "verbosity": 1, **plan.params}
    params["disable_default_eval_metric"] = True
    if own is None:
        params["objective"] = plan.native
    lists = xgb.DMatrix(data.features, data.labels, nthread=plan.threads)
    lists.set_group(_sizes(data))
    if weights is not None and own is None:
        full = data.lengths > 0
        lists.set_weight(np.add.reduceat(weights, data.offsets[:-1][full]) / data.lengths[full])
    obj = None if own is None else _derivatives(own, data, weights)
    if judge is None:
        return xgb.train(params, lists, plan.trees, obj=obj, verbose_eval=False)
    held = xgb.DMatrix(judge.data.features, judge.data.labels, nthread=plan.threads)
    held.set_group(_sizes(judge.data))
    up, callbacks = judge.metric.higher_is_better, []
    if plan.patience is not None:
        callbacks = [xgb.callback.EarlyStopping(rounds=plan.patience, metric_name=plan.metric, maximize=up)]
    booster = xgb.train(
        params, lists, plan.trees, obj=obj, evals=[(held, "held")], callbacks=callbacks, verbose_eval=False,
        custom_metric=lambda scores, _: (plan.metric, judge(scores)),
    )  # fmt: skip
    return booster[: judge.best]


def _sizes(data: Dataset) -> NDArray[np.int64]:
    """Of the lists that have a document; the frameworks know no others."""
    return data.lengths[data.lengths > 0]
