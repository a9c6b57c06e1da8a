"""Neural rankers as scikit-learn estimators, for arrays and data frames with one query id per row."""

import copy
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from rankgrad.atomic_files import write_bytes
from rankgrad.data.preprocessing.pipeline import StandardisePerQuery
from rankgrad.data.sparse_rows import rows_per_block
from rankgrad.errors import bad_value
from rankgrad.estimators.rows import RowRanker, hold_out_rows, with_weights
from rankgrad.metrics import Metric
from rankgrad.models.folder import CONFIG, read_config
from rankgrad.models.registry import kind_named
from rankgrad.run import Callback
from rankgrad.run.log import LOG
from rankgrad.settings.schema import Checked, check_share, documented, store
from rankgrad.training import Model, Settings

_ROWS = 65_536  # number of documents per block, if a score does not depend on the other documents


@documented(Settings)
class Ranker(RowRanker):
    """Fit a neural ranker on rows with query ids, and predict one score per row.

    Args:
        model: ranker: a spec, `name[:key=value,...]`, of a network (mlp, linear, context_aware, attsets, attention_mil,
            dasalc) or of a preset, or a custom network. `fit` copies it, and also custom losses and metrics.
        loss: spec of a loss, `name[@k][:key=value,...]`, or a function or module.
        metric: validation metric, which selects the epoch: a spec, or a function of the scores and labels of a list.
        categorical: names or positions of categorical columns, which may contain text. Columns of a categorical data
            type need not be listed. Each category has a trained vector. A category that does not occur in the training
            data is treated as a missing value.
        holdout: share of the training lists that `fit` holds out to select the best epoch, if there is no `eval_set`.
            With 0, no list is held out, and the model has the weights of the last epoch.
        out: new folder, in which `fit` writes checkpoints, log and model; None to write nothing. The settings
            `save_steps` and `trackers` need it.
        verbose: True to show a progress bar.

    `fit` sets `model_`, `history_` (one row per epoch), `best_epoch_` (from 1), `n_features_in_`, and
    `feature_names_in_` if X is a data frame.

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
        missing: str = "error",
        categorical: Sequence[Any] | None = None,
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
        store(self, locals())

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
        callbacks: Iterable[Callback] = (),
        init_model: "Ranker | Model | None" = None,
        resume: bool = False,
    ) -> "Ranker":
        """Fit the estimator: group the rows into lists, hold out lists, and train a neural ranker.

        After Ctrl-C, the estimator is not fitted. If `out` is given, this folder contains the model of the best epoch.

        Args:
            X: features, `(rows, f)`, from NumPy, pandas or polars, or a sparse matrix of SciPy. Only the current batch
                of a sparse matrix is converted to a dense array.
            y: labels, `(rows,)`, at least 0.
            qid: query id of each row; the rows may be in any order. Exactly one of `qid` and `group` must be given.
            group: number of rows of each list; the rows of a list must be adjacent.
            list_id: list id of each row, next to `qid`, if queries have several lists, such as sessions. A query is
                never split between training and held-out lists.
            sample_weight: weights of the rows, `(rows,)`, for losses that take weights.
            eval_set: validation rows `(X, y)`, which select the best epoch and may stop the training early. Only the
                first pair is used if `eval_set` is a list of pairs.
            eval_qid, eval_group, eval_list_id: `qid`, `group` or `list_id` of the validation rows; one entry per pair
                if `eval_set` is a list.
            training_columns: values of columns that only training uses, such as positions, `(rows,)` each, by name. A
                custom loss reads them from its batch.
            callbacks: functions that are called with the row of `history_` after each epoch; if a function returns a
                true value, the training ends.
            init_model: fitted ranker. Training starts from the weights of this ranker. The preprocessing of this ranker
                is used without changes.
            resume: True to resume from the checkpoint in `out`, if there is one. X, y, `sample_weight` and the settings
                must be those of the stopped run, except `epochs` and `patience`, which may be larger.
        """
        checked = self._checked_settings()
        if resume and self.out is None:
            bad_value("out", "be the folder of the run if resume is True", None)
        if isinstance(init_model, Ranker):
            check_is_fitted(init_model)
            init_model = init_model.model_
        self.__dict__.pop("model_", None)  # after an error below, nothing of an earlier fit remains
        data, rows = self._lists(X, y, qid, group, list_id, reset=True, init_model=init_model)
        data = with_weights(data, sample_weight, rows, training_columns)
        if data.weights is not None and not (loss := checked.parts["loss"]).takes_weights:
            bad_value("sample_weight", f"be None for {loss}, which takes no weights", "weights")
        validation = self._validation(eval_set, eval_qid, eval_group, eval_list_id)
        if validation is None:
            data, validation = hold_out_rows(data, self.holdout, checked.settings.seed)
        run: dict[str, Any] = {"out": self.out, "resume": resume, "progress": bool(self.verbose)}
        run |= {"callbacks": callbacks, "init_model": init_model}
        self._take(cast(Model, kind_named("neural").fit(checked, data, validation, **run)))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the neural model as a folder of safetensors and JSON files, which `load` and `rankgrad predict` read.

        Args:
            folder: folder to write.
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
        """Load a fitted neural ranker from a folder that `save` or `rankgrad train` wrote.

        Nothing in the folder is run, imported or unpickled. Therefore, the caller must pass a custom network
        again. A custom loss or metric is needed only if `fit` will be called again.

        Args:
            folder: folder of the model.
            device: device to compute on.
            model: network, or function that returns a network, if the ranker was fitted with a custom network.
            loss, metric: custom loss and custom metric for the next `fit`.
        """
        if (kind := read_config(Path(folder)).get("kind")) is not None:
            bad_value(
                str(folder),
                "contain a neural model (`rankgrad.models.load` loads all kinds)",
                f"a model of kind {kind!r}",
            )
        trained = Model.load(folder, device, model)
        try:
            settings = Settings.of(trained.settings)
        except (ValueError, TypeError) as error:
            bad_value(str(Path(folder) / CONFIG), "contain the settings of a run", f"the error {error}")
        given = {"model": model, "loss": loss, "metric": metric}
        custom = {name: part for name, part in given.items() if part is not None}
        ranker = cls(**{**{name: getattr(settings, name) for name in Settings.names()}, **custom})
        trained.history = _history(Path(folder) / LOG)
        ranker._take(trained)
        ranker._take_kept(Path(folder))
        return ranker

    @property
    def _takes_nan(self) -> bool:  # type: ignore[override]
        return self.missing != "error"

    def _take(self, model: Model) -> None:
        self.model_, self.history_, self.best_epoch_ = model, model.history, model.metrics.get("epoch")
        self.categories_ = model.categories  # with `init_model`, these are not the categories of X

    def _checked_settings(self) -> Checked:
        """Check the parameters of the neural estimator, and return them as settings of a training run."""
        given = {name: getattr(self, name) for name in Settings.names()}
        # A search may set NumPy numbers, which cannot be written as JSON.
        checked = Settings.checked({name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()})
        check_share("holdout", self.holdout)
        if self.out is None and (checked.settings.trackers or checked.settings.save_steps):
            bad_value("out", "be a folder if trackers or save_steps are set", None)
        return checked

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        per_query = any(isinstance(step, StandardisePerQuery) for step in self.model_.steps.steps)
        if self.model_.ranker.list_aware or per_query:
            config = self.model_.ranker.config
            name = self.model_.steps if per_query else config.get("description", self.model)
            bad_value("qid or group", f"be given, because with {name} a score depends on the whole list", "neither")
        return self.model_.score(X, np.append(np.arange(0, X.shape[0], rows_per_block(X, _ROWS)), X.shape[0]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a neural estimator for pickle. Tensors are on the CPU, for machines without a GPU."""
        state = super().__getstate__()
        if (model := state.get("model_")) is None or model.device.type == "cpu":
            return state
        return {**state, "model_": copy.deepcopy(model).to("cpu")}


def _history(log: Path) -> list[dict[str, Any]]:
    """Read `history_` from the log of a neural run. Reading stops at an incomplete line, left by a killed run."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
