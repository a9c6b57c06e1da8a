"""Train boosted trees on labelled lists: one course of training for both frameworks, in segments that can be resumed.

A run is cut into segments of `SEGMENT` trees. Each is seeded by the run's seed and its own number, and begins with what
a checkpoint holds. So a run that was killed and resumed at the last border has the trees of one that was not. Without
random sampling, the trees are those of a run in one piece.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.atomic_files import check_plain
from rankgrad.data import Dataset
from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.lock import locked
from rankgrad.losses.custom import loss_text
from rankgrad.models.protocol import Callback
from rankgrad.training.checkpoint import LAST
from rankgrad.training.loggers import JsonLines, ProgressBar
from rankgrad.trees.checkpoint import TreeCheckpoint, facts_of
from rankgrad.trees.frameworks import ENGINES, BoostingTask, GrownTrees, Weights
from rankgrad.trees.model import FILES, TreeModel
from rankgrad.trees.objective import TreeObjective, objective
from rankgrad.trees.parameters import in_segments, seed_of
from rankgrad.trees.validation import TreeValidator, measured

SEGMENT = 50  # trees; a checkpoint is written after each segment
NATIVE = {"lightgbm": ("lambdarank", "rank_xendcg"), "xgboost": ("rank:ndcg", "rank:pairwise", "rank:map")}
PREFIX = "native:"


class TreeSpec(NamedTuple):
    """What a training run is told."""

    framework: str
    loss: Any  # text, `native:` and the framework's name for it, or what `rankgrad.losses.custom.as_loss` takes
    hessian: str | float
    loss_lr: float | None
    smooth: str | float | None
    trees: int
    patience: int | None
    metric: Any  # text, a metric, or a function of the scores and labels of one list
    seed: int
    threads: int
    params: dict[str, Any]  # as the framework takes them

    @property
    def native(self) -> str | None:
        """The framework's own objective, where the loss is one."""
        native = isinstance(self.loss, str) and self.loss.startswith(PREFIX)
        return self.loss.removeprefix(PREFIX) if native else None

    def to_json(self) -> dict[str, Any]:
        """All settings, with loss and metric as text."""
        return {**self._asdict(), "loss": loss_text(self.loss), "metric": measured(self.metric)[0]}


def boost(
    plan: TreeSpec,
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
    """Train trees; with validation lists, keep as many as their metric was best at.

    Args:
        plan: the settings.
        data: the training lists.
        validation: lists that choose the number of trees and end the training.
        weights: one per document. A native objective of XGBoost takes one per list, which is then their mean.
        out: a folder for the model, checkpoints and `log.jsonl`; None keeps all in memory.
        resume: resume from the checkpoint in `out`, if there is one. `out` is held for this run alone.
        progress: show a progress bar; None: on a terminal.
        callbacks: each is called with the row of the history after each tree; a true return value ends the training.
        init_model: trees of the same framework to keep and add to; `trees` counts the new ones.
    """
    folder = None if out is None else Path(out)
    if folder is not None and not resume and any((folder / name).exists() for name in (LAST, *FILES.values())):
        bad_value(str(folder), "be a new folder, or be resumed", "a run that is there already")
    if init_model is not None:
        _check_init(init_model, plan, data)
    asked = [callbacks] if callable(callbacks) else list(callbacks)
    for callback in asked:
        if not callable(callback):
            bad_type("callbacks", "be functions of a log row", type(callback).__name__)
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder, again=True))
            check_plain(folder)
        stack.enter_context(torch.random.fork_rng([]))  # the caller's random numbers are left as they were
        run = _BoostingRun(plan, data, validation, weights, init_model)
        checkpoint = None if folder is None else run.checkpoint(folder)
        if folder is not None:
            run.log = JsonLines(folder)
        bar = ProgressBar(plan.trees, measured(plan.metric)[0], progress, "tree")
        stack.callback(bar.close)
        model = run.go(checkpoint, resume, bar, asked)
        if folder is not None:
            model.save(folder)
        return model


def check_tree_loss(plan: TreeSpec) -> None:
    """Raise where it is none: text is parsed, a native one must be one that the framework has.

    Args:
        plan: the settings.
    """
    if plan.native is None:
        objective(plan.loss, plan.framework, hessian=plan.hessian, loss_lr=plan.loss_lr, smooth=plan.smooth)
        return
    one_of(f"loss after {PREFIX}", plan.native, NATIVE[plan.framework])
    for name in ("loss_lr", "smooth"):
        if (given := getattr(plan, name)) is not None:
            bad_value(name, "be None for a native objective", repr(given))


class _BoostingRun:
    """One course of training."""

    def __init__(
        self, plan: TreeSpec, data: Dataset, validation: Dataset | None, weights: Weights, init_model: TreeModel | None
    ) -> None:
        self.plan, self.data, self.weights = plan, data, weights
        self.own = None if plan.native is not None else _objective(plan, weights)
        self.judge = None if validation is None else TreeValidator(validation, plan.metric)
        told = plan.params, plan.seed, plan.threads
        derivatives = None if self.own is None else _derivatives(self.own, data, weights)
        self.engine = ENGINES[plan.framework](BoostingTask(data, validation, weights, plan.native, derivatives, *told))
        self.cut = in_segments(plan.params, plan.framework)
        self.size = SEGMENT if self.cut else plan.trees
        self.grown: GrownTrees = self.engine.start(init_model)
        self.before = 0 if init_model is None else init_model.rounds
        self.history: list[dict[str, Any]] = []
        self.log: JsonLines | None = None

    def checkpoint(self, folder: Path) -> TreeCheckpoint:
        """The file from which this run resumes.

        Args:
            folder: of the run.
        """
        held = None if self.judge is None else self.judge.data
        facts = facts_of(self.data, held, self.weights, b"".join(self.grown.parts), SEGMENT)
        return TreeCheckpoint(folder, self.plan.to_json(), facts)

    def go(
        self, checkpoint: TreeCheckpoint | None, resume: bool, bar: ProgressBar, callbacks: Sequence[Callback]
    ) -> TreeModel:
        """Grow all trees that are left, then give back the model.

        Args:
            checkpoint: to write, and to resume from.
            resume: whether to.
            bar: shows progress.
            callbacks: called after each tree.
        """
        if checkpoint is not None:
            self._take_up(checkpoint, resume)
        clock = time.perf_counter()
        ended = self._stale()
        while len(self.history) < self.plan.trees and not ended:
            segment = len(self.history) // self.size
            self.engine.begin(self.grown, segment)
            self._seed(segment)
            last = min(self.plan.trees, (segment + 1) * self.size)
            while len(self.history) < last and not ended:
                if not self.engine.grow(len(self.history)) and (self.history or self.before):
                    ended = True  # no tree was added, and none would be
                    break
                clock = self._note(clock)
                best = None if self.judge is None else self.judge.values[self.judge.best - 1]
                bar.at(len(self.history), None, best, self.learned())
                wishes = [bool(callback(dict(self.history[-1]))) for callback in callbacks]
                ended = any(wishes) or self._stale()
            self.grown = self.engine.end()
            if checkpoint is not None and self.cut and len(self.history) == (segment + 1) * SEGMENT:
                checkpoint.save(self.grown, self.history, self.own)
        return self._model()

    def learned(self) -> dict[str, float]:
        """The loss's own parameters, by names that stand for nothing else in a row of the history."""
        known = {} if self.own is None else self.own.loss.learned()
        return {f"loss.{name}" if name == "tree" else name: value for name, value in known.items()}

    def _take_up(self, checkpoint: TreeCheckpoint, resume: bool) -> None:
        """Go back to the last border, or note where the run begins."""
        if resume and checkpoint.path.exists():
            self.grown, self.history = checkpoint.load(self.own)
            if self.judge is not None:
                self.judge.values = [float(row[self.judge.name]) for row in self.history]
        else:
            checkpoint.save(self.grown, self.history, self.own)
        if self.log is not None:
            self.log.truncate(0)
            for row in self.history:
                self.log.epoch(row)

    def _seed(self, segment: int) -> None:
        """Seed what is random in the loss."""
        seed = seed_of(self.plan.seed, segment)
        torch.manual_seed(seed)
        if self.own is not None:
            self.own.generator = np.random.default_rng(seed)

    def _note(self, clock: float) -> float:
        """Add a row about the newest tree to history and log; the time it is then."""
        grown = time.perf_counter()
        row: dict[str, Any] = {"tree": len(self.history) + 1}
        if self.judge is not None:
            row[self.judge.name] = self.judge(self.engine.scores())
        now = time.perf_counter()
        row |= {**self.learned(), "seconds": round(grown - clock, 4), "judge_seconds": round(now - grown, 4)}
        self.history.append(row)
        if self.log is not None:
            self.log.epoch(row)
        return now

    def _stale(self) -> bool:
        """Whether the metric has not become better for as many trees as patience allows."""
        patience, judge = self.plan.patience, self.judge
        return patience is not None and judge is not None and len(judge.values) - judge.best >= patience

    def _model(self) -> TreeModel:
        plan, judge = self.plan, self.judge
        kept = len(self.history) if judge is None else judge.best
        metrics: dict[str, Any] = {"trees": kept}
        if judge is not None and kept:
            metrics["validation"] = {judge.name: judge.values[kept - 1]}
        if kept and (scalars := self.learned()):
            metrics["loss"] = {name: self.history[kept - 1][name] for name in scalars}
        booster = self.engine.booster(self.grown, self.before + kept)
        return TreeModel(
            booster, plan.framework, self.data.features.shape[1], plan.to_json(), metrics, list(self.history)
        )


def _objective(plan: TreeSpec, weights: Weights) -> TreeObjective:
    told = {name: getattr(plan, name) for name in ("hessian", "loss_lr", "smooth", "seed")}
    own = objective(plan.loss, plan.framework, **told)
    if weights is not None and not own.takes_weights:
        bad_value("sample_weight", f"be None for {own.loss}, which takes no weights", "weights")
    return own


def _derivatives(own: TreeObjective, data: Dataset, weights: Weights) -> Callable[[Any, Any], Any]:
    # Copies: maps of a file are read-only, which PyTorch warns of.
    labels, offsets = np.array(data.labels, dtype=np.float32), np.array(data.offsets, dtype=np.int64)

    def of(scores: NDArray[Any], _: Any) -> Any:
        return own.derivatives(np.ascontiguousarray(scores, dtype=np.float32), labels, offsets, weights)

    return of


def _check_init(model: Any, plan: TreeSpec, data: Dataset) -> None:
    if not isinstance(model, TreeModel):
        bad_type("init_model", "be a TreeModel", type(model).__name__)
    if model.framework != plan.framework:
        bad_value("init_model", f"be trees of {plan.framework}", f"trees of {model.framework}")
    if model.features != data.features.shape[1]:
        bad_value("init_model", f"take {data.features.shape[1]} features, as the lists have", model.features)
    dropping = plan.framework == "xgboost" and (
        plan.params.get("booster") == "dart" or b'"weight_drop"' in model.content()
    )
    if model.averages or dropping:
        bad_value(
            "init_model", "have trees that are added up as they are, and so must the new ones", "others (rf or dart)"
        )
