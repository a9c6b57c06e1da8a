"""Train boosted trees on labelled lists, with one training loop for both frameworks. A stopped run can be resumed.

A run is split into segments of `SEGMENT` trees. The random seed of a segment depends on the seed of the run and the
number of the segment. Each segment starts from values that a checkpoint contains. So a run that is killed and resumed
grows the same trees as an uninterrupted run. If there is no random sampling, the split into segments does not change
the trees.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.atomic_files import check_plain
from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.data.training_labels import check_training_labels, useful_validation
from rankgrad.errors import bad_type, bad_value, first_line, one_of
from rankgrad.lock import locked
from rankgrad.losses.custom import loss_text
from rankgrad.models.protocol import Callback
from rankgrad.training.checkpoint import LAST
from rankgrad.training.loggers import JsonLines, ProgressBar
from rankgrad.trees.checkpoint import TreeCheckpoint, facts_of
from rankgrad.trees.frameworks import FRAMEWORK_CLASSES, BoostingTask, GrownTrees, Weights
from rankgrad.trees.model import FILES, TreeModel
from rankgrad.trees.objective import TreeObjective, objective
from rankgrad.trees.parameters import drops_trees, in_segments, seed_of
from rankgrad.trees.validation import TreeValidator, validation_metric

SEGMENT = 50  # number of trees per segment; a checkpoint is written after each segment
NATIVE = {"lightgbm": ("lambdarank", "rank_xendcg"), "xgboost": ("rank:ndcg", "rank:pairwise", "rank:map")}
PREFIX = "native:"
_ONLY_NATIVE = {"rank_xendcg", *NATIVE["xgboost"]}  # lambdarank is also a loss of rankgrad


class TreeSpec(NamedTuple):
    """The checked settings with which boosted trees are trained."""

    framework: str
    loss: Any  # a spec, `native:NAME` for an objective of the framework, or an object (see `as_loss`)
    hessian: str | float
    loss_lr: float | None
    smooth: str | float | None
    trees: int
    patience: int | None
    metric: Any  # a spec, a metric, or a function of the scores and labels of one list
    seed: int
    threads: int
    params: dict[str, Any]  # parameters of the framework, by the framework's names

    @property
    def native(self) -> str | None:
        """Name of the framework's objective if the loss is native, otherwise None."""
        native = isinstance(self.loss, str) and self.loss.startswith(PREFIX)
        return self.loss.removeprefix(PREFIX) if native else None

    def to_json(self) -> dict[str, Any]:
        """Return all settings of boosted trees as JSON values; loss and metric are text."""
        return {**self._asdict(), "loss": loss_text(self.loss), "metric": validation_metric(self.metric)[0]}


def boost(
    spec: TreeSpec,
    data: Dataset,
    validation: Dataset | None,
    weights: Weights = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callbacks: Iterable[Callback] = (),
    init_model: TreeModel | None = None,
) -> TreeModel:
    """Train boosted trees, and return the model. With validation lists, keep the best number of trees.

    DART changes earlier trees with each new tree. So with DART, all trees are kept, and the run does not stop early.

    Args:
        spec: settings of the run.
        data: training lists.
        validation: validation lists; the metric on these lists determines the number of trees and may stop the run
            early.
        weights: document weights `(documents,)`; None for the weights of `data`. A native objective of XGBoost uses the
            mean weight of each list.
        out: folder for the model, checkpoints and `log.jsonl`; the run locks the folder. With None, nothing is written.
        resume: True to resume from the checkpoint in `out`, if there is one.
        progress: with True, show a bar on a terminal, otherwise print some lines. With None, show only the bar.
            With False, show nothing.
        callbacks: functions that are called with a row of the history after each tree. A true return value ends the
            training.
        init_model: model of the same framework, to which the run adds `spec.trees` trees.
    """
    folder = None if out is None else Path(out)
    if folder is not None and not resume and any((folder / name).exists() for name in (LAST, *FILES.values())):
        bad_value(str(folder), "be a new folder, unless the run is resumed", "a folder that already contains a run")
    if init_model is not None:
        _check_init(init_model, spec, data)
    validation = useful_validation(validation, validation_metric(spec.metric)[0])
    metric = None if validation is None else validation_metric(spec.metric)[0]
    check_training_labels(data, loss_text(spec.loss), metric, weights)
    functions = [callbacks] if callable(callbacks) else list(callbacks)
    for callback in functions:
        library = str(getattr(callback, "__module__", "")).partition(".")[0]
        if library in FRAMEWORK_CLASSES:
            must = "be functions of one log row, a dict (for early stopping, use the setting patience)"
            bad_type("callbacks", must, f"a callback of {library}")
        if not callable(callback):
            bad_type("callbacks", "be functions with one argument, a log row", type(callback).__name__)
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder, again=True))
            check_plain(folder)
        stack.enter_context(torch.random.fork_rng([]))  # the random state of the caller does not change
        stack.enter_context(_one_sentence(spec.framework))
        run = _BoostingRun(spec, data, validation, weights, init_model)
        checkpoint = None if folder is None else run.checkpoint(folder)
        if folder is not None:
            run.log = JsonLines(folder)
        bar = ProgressBar(spec.trees, validation_metric(spec.metric)[0], progress, "tree")
        stack.callback(bar.close)
        model = run.go(checkpoint, resume, bar, functions)
        if folder is not None:
            model.save(folder)
        return model


@contextmanager
def _one_sentence(framework: str) -> Iterator[None]:
    """Raise an error of LightGBM or XGBoost, such as one about a parameter, as a `ValueError` of one line."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] != framework:
            raise
        line = re.sub(r"^\[[\d:]+\] \S+: ", "", first_line(error))
        raise ValueError(f"{framework} stopped with the error: {line}") from error


def check_tree_loss(spec: TreeSpec) -> None:
    """Check the loss of boosted trees: a spec must be valid, and a native objective must exist in the framework.

    Args:
        spec: settings of the run.
    """
    if spec.native is None:
        if isinstance(spec.loss, str) and spec.loss in _ONLY_NATIVE:
            bad_value("loss", f"be given as {PREFIX + spec.loss!r}, because it is no loss of rankgrad", repr(spec.loss))
        objective(spec.loss, spec.framework, hessian=spec.hessian, loss_lr=spec.loss_lr, smooth=spec.smooth)
        return
    one_of("native objective", spec.native, NATIVE[spec.framework])
    for name in ("loss_lr", "smooth"):
        if (given := getattr(spec, name)) is not None:
            bad_value(name, "be None for a native objective", repr(given))


class _BoostingRun:
    """One training run of boosted trees."""

    def __init__(
        self, spec: TreeSpec, data: Dataset, validation: Dataset | None, weights: Weights, init_model: TreeModel | None
    ) -> None:
        weights = data.weights if weights is None else weights
        if init_model is not None:
            data = recode(data, init_model.categories)
        validation = None if validation is None else recode(validation, data.categories)
        self.spec, self.data, self.weights = spec, data, weights
        self.objective = None if spec.native is not None else _objective(spec, weights)
        self.validator = None if validation is None else TreeValidator(validation, spec.metric)
        derivatives = None if self.objective is None else _derivatives(self.objective, data, weights)
        task = BoostingTask(data, validation, weights, spec.native, derivatives, spec.params, spec.seed, spec.threads)
        self.framework = FRAMEWORK_CLASSES[spec.framework](task)
        self.segmented = in_segments(spec.params, spec.framework)
        self.rescales = drops_trees(spec.params, spec.framework)  # then fewer trees are another model than before
        self.size = SEGMENT if self.segmented else spec.trees
        self.grown: GrownTrees = self.framework.start(init_model)
        self.before = 0 if init_model is None else init_model.rounds
        self.missing_before = False if init_model is None else init_model.trained_missing
        self.history: list[dict[str, Any]] = []
        self.log: JsonLines | None = None

    def checkpoint(self, folder: Path) -> TreeCheckpoint:
        """Return the checkpoint of this run of boosted trees.

        Args:
            folder: folder of the run.
        """
        validation = None if self.validator is None else self.validator.data
        facts = facts_of(self.data, validation, self.weights, b"".join(self.grown.parts), SEGMENT)
        return TreeCheckpoint(folder, self.spec.to_json(), facts)

    def go(
        self, checkpoint: TreeCheckpoint | None, resume: bool, bar: ProgressBar, callbacks: Sequence[Callback]
    ) -> TreeModel:
        """Grow the remaining trees, and return the model.

        Args:
            checkpoint: checkpoint of the run, or None.
            resume: True to resume from the checkpoint.
            bar: progress bar.
            callbacks: functions that are called after each tree.
        """
        if checkpoint is not None:
            self._restore(checkpoint, resume)
        clock = time.perf_counter()
        ended = self._stale()
        while len(self.history) < self.spec.trees and not ended:
            segment = len(self.history) // self.size
            self.framework.begin(self.grown, segment)
            self._seed(segment)
            last = min(self.spec.trees, (segment + 1) * self.size)
            while len(self.history) < last and not ended:
                if not self.framework.grow(len(self.history)) and (self.history or self.before):
                    ended = True  # no tree was added, so a later round would not add a tree either
                    break
                clock = self._log_tree(clock)
                best = None if self.validator is None else self.validator.values[self.validator.best - 1]
                bar.at(len(self.history), None, best, self.learned())
                bar.epoch(self.history[-1])
                answers = [bool(callback(dict(self.history[-1]))) for callback in callbacks]
                ended = any(answers) or self._stale()
            self.grown = self.framework.end()
            if checkpoint is not None and self.segmented and len(self.history) == (segment + 1) * SEGMENT:
                checkpoint.save(self.grown, self.history, self.objective)
        return self._model()

    def learned(self) -> dict[str, float]:
        """Return the parameters of the loss by name. `tree` becomes `loss.tree`; `tree` is a key of the history."""
        known = {} if self.objective is None else self.objective.loss.learned()
        return {f"loss.{name}" if name == "tree" else name: value for name, value in known.items()}

    def _restore(self, checkpoint: TreeCheckpoint, resume: bool) -> None:
        """Restore the trees at the end of the last complete segment. If the run is new, write the first checkpoint."""
        if resume and checkpoint.path.exists():
            self.grown, self.history = checkpoint.load(self.objective)
            if self.validator is not None:
                self.validator.values = [float(row[self.validator.name]) for row in self.history]
        else:
            checkpoint.save(self.grown, self.history, self.objective)
        if self.log is not None:
            self.log.truncate(0)
            for row in self.history:
                self.log.epoch(row)

    def _seed(self, segment: int) -> None:
        """Set the random seed of the loss for a segment."""
        seed = seed_of(self.spec.seed, segment)
        torch.manual_seed(seed)
        if self.objective is not None:
            self.objective.generator = np.random.default_rng(seed)

    def _log_tree(self, clock: float) -> float:
        """Add a row for the new tree to the history and the log, and return the current time."""
        grown = time.perf_counter()
        row: dict[str, Any] = {"tree": len(self.history) + 1}
        if self.validator is not None:
            row[self.validator.name] = self.validator(self.framework.scores())
        now = time.perf_counter()
        row |= {**self.learned(), "seconds": round(grown - clock, 4), "judge_seconds": round(now - grown, 4)}
        self.history.append(row)
        if self.log is not None:
            self.log.epoch(row)
        return now

    def _stale(self) -> bool:
        """Return True if the last `patience` trees have not improved the metric."""
        patience, validator = self.spec.patience, self.validator
        return (
            not self.rescales
            and patience is not None
            and validator is not None
            and len(validator.values) - validator.best >= patience
        )

    def _model(self) -> TreeModel:
        spec, validator = self.spec, self.validator
        kept = len(self.history) if validator is None or self.rescales else validator.best
        metrics: dict[str, Any] = {"trees": kept}
        if validator is not None and kept:
            metrics["validation"] = {validator.name: validator.values[kept - 1]}
        if kept and (scalars := self.learned()):
            metrics["loss"] = {name: self.history[kept - 1][name] for name in scalars}
        booster = self.framework.booster(self.grown, self.before + kept)
        model = TreeModel(
            booster, spec.framework, self.data.features.shape[1], spec.to_json(), metrics, list(self.history)
        )
        model.feature_names, model.categories = self.data.feature_names, self.data.categories
        model.zero_missing = spec.framework == "xgboost" and is_sparse(self.data.features)
        model.trained_missing = model.zero_missing or _has_nan(self.data.features) or self.missing_before
        return model


def _has_nan(features: Any) -> bool:
    values = features.data if is_sparse(features) else features
    return bool(np.isnan(values.min(initial=0)))  # the minimum is NaN if a value is NaN; it needs no copy of the values


def _objective(spec: TreeSpec, weights: Weights) -> TreeObjective:
    options = {name: getattr(spec, name) for name in ("hessian", "loss_lr", "smooth", "seed")}
    made = objective(spec.loss, spec.framework, **options)
    if weights is not None and not made.takes_weights:
        bad_value("sample_weight", f"be None for {made.loss}, which takes no weights", "document weights")
    return made


def _derivatives(of_loss: TreeObjective, data: Dataset, weights: Weights) -> Callable[[Any, Any], Any]:
    # Copy the arrays: PyTorch warns about memory maps, which are read-only.
    labels, offsets = np.array(data.labels, dtype=np.float32), np.array(data.offsets, dtype=np.int64)

    def of(scores: NDArray[Any], _: Any) -> Any:
        return of_loss.derivatives(np.ascontiguousarray(scores, dtype=np.float32), labels, offsets, weights)

    return of


def _check_init(model: Any, spec: TreeSpec, data: Dataset) -> None:
    if not isinstance(model, TreeModel):
        bad_type("init_model", "be a TreeModel", type(model).__name__)
    if model.framework != spec.framework:
        bad_value("init_model", f"contain trees of {spec.framework}", f"trees of {model.framework}")
    if model.features != data.features.shape[1]:
        bad_value(
            "init_model", f"have {data.features.shape[1]} features, the number of features in the lists", model.features
        )
    dropping = spec.framework == "xgboost" and (
        spec.params.get("booster") == "dart" or b'"weight_drop"' in model.content()
    )
    if model.averages or dropping:
        bad_value(
            "init_model", "have no trees of rf or dart, and the new run must not grow such trees", "trees of rf or dart"
        )
