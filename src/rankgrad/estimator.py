"""Neural rankers as scikit-learn estimators, for arrays and data frames with one query id per row."""

import copy
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from rankgrad.atomic_files import write_bytes
from rankgrad.data.preprocessing.pipeline import StandardisePerQuery
from rankgrad.errors import bad_value
from rankgrad.estimator_base import RowRanker, hold_out_rows, row_weights
from rankgrad.losses.custom import as_loss
from rankgrad.metrics import Metric
from rankgrad.models.folder import CONFIG, read_config
from rankgrad.models.protocol import Callback
from rankgrad.training import Model, Settings, train
from rankgrad.training.loggers import LOG

_ROWS = 65_536  # documents per block, if scores do not depend on lists


class Ranker(RowRanker):
    """Fit a neural ranker on rows with query ids, and predict one score per row.

    Args:
        model, loss, metric: as text, `name[@k][:key=value,...]`, see `rankgrad list models`; or custom objects: a
            network, a loss function or module, a function of the scores and labels of a list. `fit` copies them.
        preprocess: preprocessing as text, fitted on the training lists: `log1p`, `standardise`, `quantile`, ...
        epochs: maximum number of passes over the training lists.
        batch_size: number of lists per batch.
        batch_documents: number of documents per batch instead; None: count lists.
        list_size: longer training lists are truncated to this length, with a new random draw per epoch; None: no limit.
        optimiser: adagrad, adam, adamw, nadam, radam, rmsprop or sgd, with options as text.
        lr: learning rate.
        weight_decay: of the network; the parameters of a loss have none.
        loss_lr: learning rate of the loss's parameters; None: `lr`.
        schedule: of the learning rate: constant, cosine, step or plateau, with options as text.
        warmup: number of epochs in which the learning rate rises from 0.
        clip: maximum norm of the gradient; None: no limit.
        ema: decay of a moving average of the weights, which is kept instead of the weights; 0: no average.
        patience: number of epochs without a better `metric` after which training stops; None: never.
        seed: random seed of everything: weights, order of lists, dropout, the hold-out.
        device: `"auto"`, `"cpu"` or `"cuda"`.
        precision: `"fp32"`, `"bf16"` or `"fp16"`.
        data_on: location of the lists during training: `"device"`, `"stream"` (read from a memory map) or `"auto"`.
        save_steps: number of steps between checkpoints, in addition to one per epoch; needs `out`.
        trackers: tensorboard, mlflow, wandb, in addition to `log.jsonl`; needs `out`.
        holdout: share of the training lists that is held out to select the epoch, if `fit` gets no `eval_set`; 0: no
            list is held out, and the last epoch is kept.
        out: a new folder for checkpoints, log and model while `fit` runs; None: nothing is written.
        verbose: show a progress bar.

    After `fit`: `model_`, `history_` (one row per epoch), `best_epoch_` (from 1), `n_features_in_`, and
    `feature_names_in_` if X was a data frame.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
        >>> y = (X[:, 0] > 0).astype(int)
        >>> ranker = Ranker(model="linear", epochs=30, lr=0.1).fit(X, y, qid=qid)
        >>> ranker.predict(X).shape, ranker.score(X, y, qid=qid) > 0.8
        ((60,), True)
    """

    def __init__(
        self,
        model: str | nn.Module | Callable[..., Any] = "mlp",
        loss: str | nn.Module | Callable[..., Any] = "lambdaloss",
        *,
        preprocess: str = "standardise",
        epochs: int = 100,
        batch_size: int = 64,
        batch_documents: int | None = None,
        list_size: int | None = None,
        optimiser: str = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        loss_lr: float | None = None,
        schedule: str = "constant",
        warmup: float = 0.0,
        clip: float | None = None,
        ema: float = 0.0,
        metric: str | Metric | Callable[..., Any] = "nDCG@10",
        patience: int | None = 20,
        seed: int = 0,
        device: str = "auto",
        precision: str = "fp32",
        data_on: str = "auto",
        save_steps: int | None = None,
        trackers: tuple[str, ...] = (),
        holdout: float = 0.2,
        out: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.loss = loss
        self.preprocess = preprocess
        self.epochs = epochs
        self.batch_size = batch_size
        self.batch_documents = batch_documents
        self.list_size = list_size
        self.optimiser = optimiser
        self.lr = lr
        self.weight_decay = weight_decay
        self.loss_lr = loss_lr
        self.schedule = schedule
        self.warmup = warmup
        self.clip = clip
        self.ema = ema
        self.metric = metric
        self.patience = patience
        self.seed = seed
        self.device = device
        self.precision = precision
        self.data_on = data_on
        self.save_steps = save_steps
        self.trackers = trackers
        self.holdout = holdout
        self.out = out
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        callbacks: Iterable[Callback] = (),
        init_model: "Ranker | Model | None" = None,
    ) -> "Ranker":
        """Train on labelled lists. After Ctrl-C the estimator is unfitted; the best epoch so far is in `out`, if given.

        Args:
            X: features, `(rows, f)`: NumPy, pandas or polars; not sparse.
            y: labels, `(rows,)`, at least 0.
            qid: the query of each row, in any order; or
            group: the sizes of the lists, whose rows are adjacent.
            sample_weight: `(rows,)`, for losses that take weights.
            eval_set: `(X, y)` that selects the epoch and stops the run, or a list of pairs, of which the first is used.
            eval_qid, eval_group: the lists of `eval_set`, as `qid` and `group`; a list of them if `eval_set` is a list.
            callbacks: called with the row of `history_` after each epoch; a true return value ends the training.
            init_model: a fitted ranker; training starts from its weights and uses its preprocessing unchanged.
        """
        settings = self._settings()
        if isinstance(init_model, Ranker):
            check_is_fitted(init_model)
            init_model = init_model.model_
        self.__dict__.pop("model_", None)  # after an error below, no part of an older fit remains
        data, rows = self._lists(X, y, qid, group, reset=True)
        weights = None if sample_weight is None else row_weights(sample_weight, rows)
        if weights is not None and not (loss := as_loss(settings.loss)).takes_weights:
            bad_value("sample_weight", f"be None for {loss}, which takes no weights", "weights")
        validation = self._validation(eval_set, eval_qid, eval_group)
        if validation is None:
            data, validation, weights = hold_out_rows(data, weights, self.holdout, settings.seed)
        options: dict[str, Any] = {"out": self.out, "weights": weights, "progress": bool(self.verbose)}
        self._take(train(settings, data, validation, callbacks=callbacks, init_model=init_model, **options))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder of safetensors and JSON, which `load` and `rankgrad predict` read.

        Args:
            folder: path to write.
        """
        check_is_fitted(self)
        self.model_.save(folder)
        self._keep(Path(folder))
        write_bytes(Path(folder) / LOG, "".join(json.dumps(row) + "\n" for row in self.history_).encode())

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str = "cpu",
        *,
        model: Any = None,
        loss: Any = None,
        metric: Any = None,
    ) -> "Ranker":
        """Load a fitted ranker from a folder that `save` or `rankgrad train` wrote.

        Nothing in the folder is run, imported or unpickled. So custom objects must be given again: a network always, a
        loss or metric only to fit again.

        Args:
            folder: folder of the model.
            device: device to compute on.
            model: the network, or a function that makes it, if the ranker was fitted with a custom network.
            loss, metric: parameters of the ranker, for the next `fit`.
        """
        if (kind := read_config(Path(folder)).get("kind")) is not None:
            bad_value(str(folder), "hold a neural model", f"a model of kind {kind!r}, which has a separate `load`")
        trained = Model.load(folder, device, model)
        try:
            settings = Settings.of(trained.settings)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{Path(folder) / CONFIG} must hold settings of a run; got {error}") from error
        given = {"model": model, "loss": loss, "metric": metric}
        custom = {name: part for name, part in given.items() if part is not None}
        ranker = cls(**{**{name: getattr(settings, name) for name in Settings.names()}, **custom})
        trained.history = _history(Path(folder) / LOG)
        ranker._take(trained)
        ranker._take_kept(Path(folder))
        return ranker

    def _take(self, model: Model) -> None:
        self.model_, self.history_, self.best_epoch_ = model, model.history, model.metrics.get("epoch")

    def _settings(self) -> Settings:
        """Return the checked settings of a run."""
        given = {name: getattr(self, name) for name in Settings.names()}
        # A search may give NumPy numbers, which JSON does not support.
        settings = Settings.of({name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()})
        settings.check()
        if not isinstance(self.holdout, int | float) or not 0 <= self.holdout < 1:
            bad_value("holdout", "be a number of at least 0 and below 1", repr(self.holdout))
        if self.out is None and (settings.trackers or settings.save_steps):
            bad_value("out", "be a folder if trackers or save_steps are set", None)
        return settings

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        per_query = any(isinstance(step, StandardisePerQuery) for step in self.model_.steps.steps)
        if self.model_.ranker.list_aware or per_query:
            config = self.model_.ranker.config
            name = self.model_.steps if per_query else config.get("description", config["model"])
            bad_value("qid or group", f"be given: with {name} a score depends on the whole list", "neither")
        return self.model_.score(X, np.append(np.arange(0, len(X), _ROWS), len(X)))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, on the CPU, so that a machine without a GPU can read it."""
        state = super().__getstate__()
        if (model := state.get("model_")) is None or model.device.type == "cpu":
            return state
        return {**state, "model_": copy.deepcopy(model).to("cpu")}


def _history(log: Path) -> list[dict[str, Any]]:
    """Read the rows of a log, up to an incomplete line from a killed run."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
