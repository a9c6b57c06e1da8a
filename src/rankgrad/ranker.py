"""The estimator: rankers with scikit-learn's manners, for arrays and data frames with a query id a row."""

import copy
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankgrad import losses
from rankgrad.data import Dataset, from_arrays
from rankgrad.data.preprocessing import StandardisePerQuery
from rankgrad.errors import bad_value
from rankgrad.metrics import ndcg
from rankgrad.training import Model, Settings, train
from rankgrad.training.files import write_bytes, write_json
from rankgrad.training.report import LOG

ESTIMATOR = "estimator.json"  # beside the model: what only the estimator knows
_ROWS = 65_536  # documents scored at a time where lists do not matter


class Ranker(BaseEstimator):
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
        weights = None if sample_weight is None else _weights(sample_weight, rows)
        if weights is not None and not losses.parse(settings.loss).takes_weights:
            bad_value("sample_weight", f"be None for {settings.loss}, which takes no weights", "weights")
        validation = self._validation(eval_set, eval_qid, eval_group)
        if validation is None:
            data, validation, weights = _hold_out(data, weights, self.holdout, settings.seed)
        model = train(settings, data, validation, out=self.out, weights=weights, progress=bool(self.verbose))
        self._take(model)
        return self

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> NDArray[np.float32]:
        """One score a row, in the order of the rows; higher is better, and only the order within a list has a meaning.

        Args:
            X: features, `(rows, f)`.
            qid, group: as in `fit`; needed by rankers and preprocessing that look at a whole list, such as
                `context_aware` and `standardise_per_query`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        if qid is None and group is None:
            self._check_lists_do_not_matter()
            return self.model_.score(X, np.append(np.arange(0, len(X), _ROWS), len(X)))
        data, rows = from_arrays(X, np.zeros(len(X)), qid=qid, group=group)
        scores = np.empty(len(rows), dtype=np.float32)
        scores[rows] = self.model_.score(data.features, data.offsets)
        return scores

    def score(self, X: Any, y: Any, qid: Any = None, group: Any = None, sample_weight: Any = None) -> float:
        """The mean nDCG@10 (gain 2^y - 1); a list without a relevant document counts as 0.

        With `sample_weight (rows,)`, a list weighs as much as its rows do on average.
        """
        check_is_fitted(self)
        data, rows = self._lists(X, y, qid, group, reset=False)
        scores = self.model_.score(data.features, data.offsets)
        values = ndcg(scores, data.labels, offsets=data.offsets, k=10, reduction="none").cpu().numpy()
        if sample_weight is None:
            return float(values.mean())
        owner = np.repeat(np.arange(len(data)), data.lengths)
        sums = np.bincount(owner, _weights(sample_weight, rows), minlength=len(data))
        return float(np.average(values, weights=sums / np.maximum(data.lengths, 1)))

    def rank(self, X: Any, qid: Any = None, group: Any = None) -> NDArray[np.int64]:
        """The rank of each row in its list, from 1; of rows with equal scores the earlier comes first."""
        check_is_fitted(self)
        _check_lists(qid, group)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        data, rows = from_arrays(X, np.zeros(len(X)), qid=qid, group=group)
        owner = np.repeat(np.arange(len(data)), data.lengths)
        scores = self.model_.score(data.features, data.offsets)
        best_first = np.lexsort((-scores, owner))  # stable, by list and then by score
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[rows[best_first]] = np.arange(len(rows)) - data.offsets[owner] + 1
        return ranks

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder of safetensors and JSON, which `load` and `rankgrad predict` read."""
        check_is_fitted(self)
        self.model_.save(folder)
        names = getattr(self, "feature_names_in_", None)
        known = {"feature_names": None if names is None else names.tolist(), "holdout": float(self.holdout)}
        write_json(Path(folder) / ESTIMATOR, known)
        write_bytes(Path(folder) / LOG, "".join(json.dumps(row) + "\n" for row in self.history_).encode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "cpu") -> "Ranker":
        """A fitted ranker from a folder that `save` or `rankgrad train` wrote. Nothing in it is run or unpickled."""
        model = Model.load(folder, device)
        settings = Settings.of(model.settings)
        ranker = cls(**{name: getattr(settings, name) for name in Settings.names()})
        path = Path(folder) / ESTIMATOR
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        ranker.holdout = known.get("holdout", ranker.holdout)
        if (names := known.get("feature_names")) is not None:
            if len(names) != model.features:
                bad_value(str(path), f"name {model.features} features", len(names))
            ranker.feature_names_in_ = np.array(names, dtype=object)
        model.history = _history(Path(folder) / LOG)
        ranker.n_features_in_ = model.features
        ranker._take(model)
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

    def _lists(self, X: Any, y: Any, qid: Any, group: Any, *, reset: bool) -> tuple[Dataset, NDArray[np.int64]]:
        """Rows brought together by query, and the row that each came from."""
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True, reset=reset)
        _check_lists(qid, group)
        return from_arrays(X, y, qid=qid, group=group)

    def _check_lists_do_not_matter(self) -> None:
        per_query = any(isinstance(step, StandardisePerQuery) for step in self.model_.steps.steps)
        if self.model_.ranker.list_aware or per_query:
            name = self.model_.steps if per_query else self.model_.ranker.model
            bad_value("qid or group", f"be given: with {name} a score depends on the whole list", "neither")

    def _validation(self, eval_set: Any, qid: Any, group: Any) -> Dataset | None:
        sets = _several(eval_set)
        if not sets:
            return None
        if len(sets) > 1:
            warnings.warn(
                f"eval_set holds {len(sets)} sets: the first chooses the epoch, others are not used", stacklevel=3
            )
        if (qid is None) == (group is None):
            bad_value("eval_qid or eval_group", "be given, one of them", "neither" if qid is None else "both")
        try:
            return self._lists(*sets[0], _first(qid, len(sets)), _first(group, len(sets)), reset=False)[0]
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"eval_set: {error}") from error

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: as it is, but on the CPU, so that a machine without a GPU can read it."""
        state = super().__getstate__()
        if (model := state.get("model_")) is None or model.device.type == "cpu":
            return state
        return {**state, "model_": copy.deepcopy(model).to("cpu")}


def _check_lists(qid: Any, group: Any) -> None:
    if qid is None and group is None:
        must = "be given, for a list is what is ranked (a search or pipeline of scikit-learn passes qid on after "
        bad_value("qid or group", must + "set_fit_request(qid=True) and set_score_request(qid=True))", "neither")


def _several(eval_set: Any) -> list[tuple[Any, Any]]:
    """Pairs, from one pair `(X, y)` or a list of them, as LightGBM, XGBoost and PyTerrier pass it."""
    if eval_set is None:
        return []
    one = isinstance(eval_set, tuple) and not all(isinstance(part, tuple) for part in eval_set)
    sets = [eval_set] if one else eval_set
    if not isinstance(sets, list | tuple) or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in sets):
        bad_value("eval_set", "be (X, y) or a list of such pairs", type(eval_set).__name__)
    return list(sets)


def _first(lists: Any, sets: int) -> Any:
    """The query ids or sizes of the first set, from those of one set or a list of them."""
    if not isinstance(lists, list | tuple) or not len(lists) or np.ndim(lists[0]) == 0:
        return lists
    if len(lists) != sets:
        bad_value("eval_qid or eval_group", f"be given for each of {sets} sets", len(lists))
    return lists[0]


def _history(log: Path) -> list[dict[str, Any]]:
    """The rows of a log, up to a line that a killed run left unfinished."""
    rows = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _weights(sample_weight: Any, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """One weight a document, in the order of the lists."""
    weights = np.asarray(sample_weight, dtype=np.float32)
    if weights.shape != rows.shape:
        bad_value("sample_weight", f"be one a row, ({len(rows)},)", weights.shape)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        bad_value("sample_weight", "be finite and at least 0", "others")
    if not weights.any():
        bad_value("sample_weight", "not be zero everywhere", "zeros only")
    return weights[rows]


def _hold_out(
    data: Dataset, weights: NDArray[np.float32] | None, share: float, seed: int
) -> tuple[Dataset, Dataset | None, NDArray[np.float32] | None]:
    """Some lists set aside to choose the epoch, drawn by the seed.

    Only lists whose labels differ are drawn: others have the same metric in every order. One list at least is trained
    on; where the share makes less than half a list, none is set aside.
    """
    owner = np.repeat(np.arange(len(data)), data.lengths)
    first = data.labels[np.minimum(data.offsets[:-1], len(owner) - 1)]
    differ = np.unique(owner[data.labels != first[owner]])
    held = min(round(share * len(differ)), len(data) - 1)
    if held == 0:
        return data, None, weights
    chosen = np.random.default_rng(seed).permutation(differ)[:held]
    kept = np.setdiff1d(np.arange(len(data)), chosen)
    weights = None if weights is None else weights[np.isin(owner, kept)]
    return data.take(kept), data.take(np.sort(chosen)), weights
