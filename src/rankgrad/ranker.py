"""The estimator: rankers with scikit-learn's manners, for arrays and data frames with a query id a row."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rankgrad import losses
from rankgrad.data.preprocessing import StandardisePerQuery
from rankgrad.errors import bad_value
from rankgrad.files import write_bytes
from rankgrad.models.folder import CONFIG, read_config
from rankgrad.rows import RowRanker, hold_out, row_weights
from rankgrad.training import Model, Settings, train
from rankgrad.training.report import LOG

_ROWS = 65_536  # documents scored at a time where lists do not matter


class Ranker(RowRanker):
    """A ranker that is fitted on rows with a query each, and gives one score a row.

    Args:
        model, loss: as text, `name[@k][:key=value,...]`; `rankgrad list models` and `rankgrad list losses` know them.
        holdout: the share of the training lists that is set aside to choose the epoch where `fit` is given no
            `eval_set`; 0: none is, and the last epoch is kept.
        out: a new folder for checkpoints, log and model while `fit` runs; None keeps all in memory.
        verbose: show a progress bar.
        preprocess, ..., trackers: as in `rankgrad.training.Settings`, with its defaults.

    After `fit`: `model_`, `history_` (a row an epoch), `best_epoch_` (from 1), `n_features_in_`, and
    `feature_names_in_` where X was a data frame.

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
        model: str = "mlp",
        loss: str = "lambdaloss",
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
        metric: str = "nDCG@10",
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
    ) -> "Ranker":
        """Train on labelled lists. Ctrl-C leaves the estimator unfitted; the best epoch so far is in `out`, if given.

        Args:
            X: features, `(rows, f)`: NumPy, pandas or polars; not sparse.
            y: labels, `(rows,)`, at least 0.
            qid: the query of each row, in any order; or
            group: the sizes of the lists, whose rows are side by side.
            sample_weight: `(rows,)`, for losses that take weights.
            eval_set: `(X, y)` that chooses the epoch and stops the run, or a list of such, of which the first does.
            eval_qid, eval_group: the lists of `eval_set`; a list of such where that is one.
        """
        settings = self._settings()
        self.__dict__.pop("model_", None)  # what goes wrong below leaves no half of an older fit
        data, rows = self._lists(X, y, qid, group, reset=True)
        weights = None if sample_weight is None else row_weights(sample_weight, rows)
        if weights is not None and not losses.parse(settings.loss).takes_weights:
            bad_value("sample_weight", f"be None for {settings.loss}, which takes no weights", "weights")
        validation = self._validation(eval_set, eval_qid, eval_group)
        if validation is None:
            data, validation, weights = hold_out(data, weights, self.holdout, settings.seed)
        model = train(settings, data, validation, out=self.out, weights=weights, progress=bool(self.verbose))
        self._take(model)
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder of safetensors and JSON, which `load` and `rankgrad predict` read."""
        check_is_fitted(self)
        self.model_.save(folder)
        self._keep(Path(folder))
        write_bytes(Path(folder) / LOG, "".join(json.dumps(row) + "\n" for row in self.history_).encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "cpu") -> "Ranker":
        """A fitted ranker from a folder that `save` or `rankgrad train` wrote. Nothing in it is run or unpickled."""
        if (kind := read_config(Path(folder)).get("kind")) is not None:
            bad_value(str(folder), "hold a neural model", f"a model of kind {kind!r}, which has a `load` of its own")
        model = Model.load(folder, device)
        try:
            settings = Settings.of(model.settings)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{Path(folder) / CONFIG} must hold settings of a run; got {error}") from error
        ranker = cls(**{name: getattr(settings, name) for name in Settings.names()})
        model.history = _history(Path(folder) / LOG)
        ranker._take(model)
        ranker._take_kept(Path(folder))
        return ranker

    def _take(self, model: Model) -> None:
        self.model_, self.history_, self.best_epoch_ = model, model.history, model.metrics.get("epoch")

    def _settings(self) -> Settings:
        """The settings of a run, checked."""
        given = {name: getattr(self, name) for name in Settings.names()}
        # A search draws values from NumPy, whose numbers JSON does not know.
        settings = Settings.of({name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()})
        settings.check()
        if not isinstance(self.holdout, int | float) or not 0 <= self.holdout < 1:
            bad_value("holdout", "be a number of at least 0 and below 1", repr(self.holdout))
        if self.out is None and (settings.trackers or settings.save_steps):
            bad_value("out", "be a folder where trackers or save_steps are set", None)
        return settings

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        per_query = any(isinstance(step, StandardisePerQuery) for step in self.model_.steps.steps)
        if self.model_.ranker.list_aware or per_query:
            name = self.model_.steps if per_query else self.model_.ranker.model
            bad_value("qid or group", f"be given: with {name} a score depends on the whole list", "neither")
        return self.model_.score(X, np.append(np.arange(0, len(X), _ROWS), len(X)))

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: as it is, but on the CPU, so that a machine without a GPU can read it."""
        state = super().__getstate__()
        if (model := state.get("model_")) is None or model.device.type == "cpu":
            return state
        return {**state, "model_": copy.deepcopy(model).to("cpu")}


def _history(log: Path) -> list[dict[str, Any]]:
    """The rows of a log, up to a line that a killed run left unfinished."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
