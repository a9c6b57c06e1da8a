"""Train boosted trees on labelled lists, with any framework. A stopped run can be resumed.

A run is split into segments of `SEGMENT` trees. The random seed of a segment depends on the seed of the run and the
number of the segment. Each segment starts from values that a checkpoint contains. So a run that is killed and resumed
grows the same trees as an uninterrupted run. If there is no random sampling, the split into segments does not change
the trees.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.errors import bad_type, bad_value, first_line
from rankgrad.losses.traits import Traits
from rankgrad.run import Callback, Trainable, run
from rankgrad.run.checkpoint import LAST
from rankgrad.run.loop import OneProcess, TrainingLoop
from rankgrad.run.objective import column_tensors
from rankgrad.run.state import RunState
from rankgrad.run.training_labels import check_lists
from rankgrad.settings.schema import Checked
from rankgrad.settings.trees import TreeSpec
from rankgrad.tree_frameworks import FILES
from rankgrad.trees.checkpoint import TreeCheckpoint, facts_of
from rankgrad.trees.frameworks import BoostingTask, GrownTrees, Weights, framework_named
from rankgrad.trees.model import TreeModel
from rankgrad.trees.objective import TreeObjective, objective
from rankgrad.trees.parameters import drops_trees, in_segments, seed_of

SEGMENT = 50  # number of trees per segment; a checkpoint is written after each segment


def boost(
    settings: TreeSpec | Checked,
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
        settings: settings of the run.
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
        init_model: model of the same framework, to which the run adds `trees` trees.
    """
    with torch.random.fork_rng([]):  # a check of a loss may draw random numbers
        checked = TreeSpec.checked(settings)
    spec = checked.settings
    if init_model is not None:
        _check_init(init_model, spec, data)
    training = TreeTraining(checked, data, validation, weights, init_model)
    with _one_sentence(spec.framework):
        return run(training, out=out, resume=resume, progress=progress, callbacks=callbacks)


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


class TreeTraining(Trainable):
    """The training of boosted trees, tree by tree, in segments."""

    unit = "tree"
    files = (LAST, *FILES.values())
    checkpoint: TreeCheckpoint | None = None
    objective: TreeObjective | None = None  # None for a native objective
    growing = False  # True inside a segment

    def __init__(
        self,
        checked: Checked,
        data: Dataset,
        validation: Dataset | None,
        weights: Weights,
        init_model: TreeModel | None,
    ) -> None:
        self.spec = spec = checked.settings
        self.init_model = init_model
        self.settings_json, self.judge = spec.to_json(), checked.parts["metric"]
        self.weights = data.weights if weights is None else weights
        self.metric, self.higher_is_better = self.settings_json["metric"], self.judge.higher_is_better
        self.units, self.patience = spec.trees, spec.patience
        if spec.native is None:
            options = {name: getattr(spec, name) for name in ("hessian", "loss_lr", "smooth", "seed")}
            self.objective = objective(checked.parts["loss"], spec.framework, **options)
            if self.weights is not None and not self.objective.takes_weights:
                got = f"be None for {self.objective.loss}, which takes no weights"
                bad_value("sample_weight", got, "document weights")
            traits = self.objective.loss.traits
        else:
            traits = Traits(gain=framework_named(spec.framework).native[spec.native])
        loss = self.settings_json["loss"]
        validation = check_lists(data, validation, loss, traits, self.judge, self.weights)
        self.data = data if init_model is None else recode(data, init_model.categories)
        self.validation = None if validation is None else recode(validation, self.data.categories)
        self.segmented = in_segments(spec.params, spec.framework)
        self.keeps_last = drops_trees(spec.params)  # then fewer trees are another model than before
        self.size = SEGMENT if self.segmented else spec.trees
        self.before = 0 if init_model is None else init_model.rounds
        self.processes, self.state = OneProcess(), RunState()

    def start(self, folder: Path | None, resume: bool) -> None:
        """Make the objective and the data of the framework. Restore the last complete segment, or write a checkpoint.

        Args:
            folder: folder of the run, or None.
            resume: True to resume from the checkpoint in the folder, if there is one.
        """
        spec, data, weights = self.spec, self.data, self.weights
        self.folder = folder
        derivatives = None if self.objective is None else _derivatives(self.objective, data, weights)
        task = BoostingTask(
            data, self.validation, weights, spec.native, derivatives, spec.params, spec.seed, spec.threads
        )
        self.growth = framework_named(spec.framework).growth(task)
        self.grown: GrownTrees = self.growth.start(self.init_model)
        if folder is None:
            return
        facts = facts_of(data, self.validation, weights, b"".join(self.grown.parts), SEGMENT)
        self.checkpoint = TreeCheckpoint(folder, self.settings_json, facts)
        if not resume or not self.checkpoint.path.exists():
            self.checkpoint.save(self.grown, self.state.history, self.objective)
            return
        self.grown, rows = self.checkpoint.load(self.objective)
        for row in rows:
            value = None if self.validation is None else float(row[self.metric])
            self.state.judge(value, higher_is_better=self.higher_is_better, latest=self.keeps_last)
            self.state.history.append(row)

    def train(self, loop: TrainingLoop) -> dict[str, Any] | None:
        """Grow one tree; see `Trainable.train`.

        Args:
            loop: the loop of the run.
        """
        number = len(self.state.history)
        if not self.growing:
            segment = number // self.size
            self.growth.begin(self.grown, segment)
            seed = seed_of(self.spec.seed, segment)  # of the loss
            torch.manual_seed(seed)
            if self.objective is not None:
                self.objective.generator = np.random.default_rng(seed)
            self.growing = True
        # If no tree is added, a later round would not add a tree either.
        return {} if self.growth.grow(number) or not (number or self.before) else None

    def validate(self) -> float | None:
        """Return the metric of the trees so far; see `Trainable.validate`."""
        if self.validation is None:
            return None
        scores = np.asarray(
            self.growth.scores(), dtype=np.float32
        )  # float32 as in `predict`, so that ties are the same
        lists = self.validation
        values = self.judge.measure(scores, lists.labels, offsets=lists.offsets, reduction="none")
        return float(values.double().nanmean())

    def learned(self) -> dict[str, float]:
        """Return the parameters of the loss by name. `tree` becomes `loss.tree`; `tree` is a key of the history."""
        known = {} if self.objective is None else self.objective.loss.learned()
        return {f"loss.{name}" if name == "tree" else name: value for name, value in known.items()}

    def save(self) -> None:
        """End the segment if it is complete, and write a checkpoint."""
        if len(self.state.history) % self.size == 0:
            self._end_segment()
            if self.checkpoint is not None and self.segmented:
                self.checkpoint.save(self.grown, self.state.history, self.objective)

    def _end_segment(self) -> None:
        if self.growing:
            self.grown, self.growing = self.growth.end(), False

    def result(self) -> TreeModel:
        """Return the best number of trees as a model, and write its folder."""
        self._end_segment()
        spec, history, state = self.spec, self.state.history, self.state
        kept = state.best_epoch or 0
        metrics: dict[str, Any] = {"trees": kept}
        if state.best is not None:
            metrics["validation"] = {self.metric: state.best}
        if kept and (scalars := self.learned()):
            metrics["loss"] = {name: history[kept - 1][name] for name in scalars}
        booster = self.growth.booster(self.grown, self.before + kept)
        settings = {**self.settings_json}
        model = TreeModel(booster, spec.framework, self.data.features.shape[1], settings, metrics, list(history))
        model.feature_names, model.categories = self.data.feature_names, self.data.categories
        model.zero_missing = framework_named(spec.framework).sparse_missing and is_sparse(self.data.features)
        before = self.init_model is not None and self.init_model.trained_missing
        model.trained_missing = model.zero_missing or _has_nan(self.data.features) or before
        if self.folder is not None:
            model.save(self.folder)
        return model


def _has_nan(features: Any) -> bool:
    values = features.data if is_sparse(features) else features
    return bool(np.isnan(values.min(initial=0)))  # the minimum is NaN if a value is NaN; it needs no copy of the values


def _derivatives(of_loss: TreeObjective, data: Dataset, weights: Weights) -> Callable[[Any, Any], Any]:
    # Copy the arrays: PyTorch warns about memory maps, which are read-only.
    labels, offsets = np.array(data.labels, dtype=np.float32), np.array(data.offsets, dtype=np.int64)
    columns = column_tensors(data)

    def of(scores: NDArray[Any], _: Any) -> Any:
        return of_loss.derivatives(np.ascontiguousarray(scores, dtype=np.float32), labels, offsets, weights, columns)

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
    if framework_named(spec.framework).rescales(model.content(), spec.params):
        bad_value(
            "init_model", "have no trees of rf or dart, and the new run must not grow such trees", "trees of rf or dart"
        )
