"""A ranker made of rankers: their scores, normalised in each list, added up with weights fitted on held-out lists."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from rankgrad import losses
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.files import hash_of, write_json
from rankgrad.metrics.evaluate import Evaluation, evaluate
from rankgrad.ranker import Ranker
from rankgrad.rows import RowRanker, row_weights
from rankgrad.training import Model
from rankgrad.training.model import CONFIG, FORMAT, VERSION, read_config
from rankgrad.trees import TreeModel, TreeRanker
from rankgrad.trees.model import KIND as TREES

KIND = "blend"


def blend(rankers: Sequence[Any], *, loss: str = "xe_ndcg", even: float = 0.1) -> "Blend":
    """A ranker made of fitted rankers, whose weights `fit` finds: give it lists that none of them was trained on.

    Args:
        rankers: `rankgrad.Ranker`, `TreeRanker` or blends, all fitted on the same columns.
        loss: what the weights minimise, as text.
        even: how strongly equal weights are preferred; the fewer lists to fit on, the more that helps.

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
    """What `blend` makes. After `fit`: `weights_`, one a ranker, at least 0 and adding up to 1; `model_`."""

    def __init__(self, rankers: Sequence[Any], *, loss: str = "xe_ndcg", even: float = 0.1) -> None:
        self.rankers = rankers
        self.loss = loss
        self.even = even

    @property
    def _takes_nan(self) -> bool:  # type: ignore[override]
        return all(ranker._takes_nan for ranker in self.rankers)

    def fit(self, X: Any, y: Any, *, qid: Any = None, group: Any = None, sample_weight: Any = None) -> "Blend":
        """Fit the weights on labelled lists; arguments as in `rankgrad.Ranker.fit`. The rankers stay as they are."""
        loss = losses.parse(self.loss)
        loss.only_joint("a blend")
        if not self.rankers:
            bad_value("rankers", "hold at least one", "none")
        for ranker in self.rankers:
            check_is_fitted(ranker)
        if not 0 <= self.even < float("inf"):
            bad_value("even", "be at least 0 and finite", self.even)
        self.__dict__.pop("model_", None)
        data, rows = self._lists(X, y, qid, group, reset=True)
        models = [ranker.model_ for ranker in self.rankers]
        wanted = {model.features for model in models}
        if wanted != {data.features.shape[1]}:
            bad_value("rankers", f"all take {data.features.shape[1]} features, as X has", sorted(wanted))
        lists = {"offsets": torch.from_numpy(data.offsets)}
        if sample_weight is not None:
            if not loss.takes_weights:
                bad_value("sample_weight", f"be None for {self.loss}, which takes no weights", "weights")
            lists["weights"] = torch.from_numpy(row_weights(sample_weight, rows))
        columns = torch.from_numpy(standardised(models, data.features, data.offsets))
        weights = _fit(columns, torch.tensor(data.labels), loss, self.even, lists)
        self._take(BlendModel(models, weights))
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with `config.json` and a folder for each ranker, as it saves itself."""
        check_is_fitted(self)
        folder = Path(folder)
        for place, ranker in enumerate(self.rankers, 1):
            ranker.save(folder / f"part-{place}")
        settings = {"loss": self.loss, "even": float(self.even)}
        parts = [_hash(part) for part in _parts(folder, len(self.rankers))]
        about = {"weights": self.weights_.tolist(), "settings": settings, "parts": parts}
        write_json(folder / CONFIG, {"format": FORMAT, "version": VERSION, "kind": KIND, **about}, seal=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Blend":
        """A fitted blend from a folder that `save` wrote. Nothing in it is run or unpickled."""
        weights, settings = _config(Path(folder))
        kinds: dict[str, Any] = {TREES: TreeRanker, KIND: cls}
        rankers = [
            kinds.get(read_config(part).get("kind", ""), Ranker).load(part) for part in _parts(folder, len(weights))
        ]
        try:
            made = cls(rankers, **settings)
        except TypeError as error:
            raise ValueError(f"{Path(folder) / CONFIG} must hold settings of a blend; got {error}") from error
        made.n_features_in_ = rankers[0].n_features_in_
        made._take(BlendModel([ranker.model_ for ranker in rankers], weights))
        return made

    def _take(self, model: "BlendModel") -> None:
        self.model_, self.weights_ = model, model.weights

    def _score_rows(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        bad_value("qid or group", "be given: a blend normalises scores over the whole list", "neither")

    def __sklearn_clone__(self) -> "Blend":
        return Blend(self.rankers, loss=self.loss, even=self.even)  # fitted rankers are its settings


@dataclass
class BlendModel:
    """Models and their weights, as one that scores lists."""

    models: list[Any]
    weights: NDArray[np.float64]

    @property
    def features(self) -> int:
        """Columns it takes."""
        return int(self.models[0].features)

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """One score a row, `(documents,)`; without `offsets` all are one list."""
        offsets = np.array([0, len(features)]) if offsets is None else np.asarray(offsets, dtype=np.int64)
        return (standardised(self.models, features, offsets) @ self.weights).astype(np.float32)

    def evaluate(self, data: Dataset, metrics: list[str]) -> Evaluation:
        """Metrics on labelled lists, with intervals and the values of each list."""
        scores = self.score(data.features, data.offsets)
        return evaluate(scores, np.asarray(data.labels), metrics, offsets=data.offsets)


def read_model(folder: str | os.PathLike[str], device: str = "cpu") -> Any:
    """The model in a folder, of whichever kind it is: neural, trees or a blend."""
    folder = Path(folder)
    kind = read_config(folder).get("kind")
    if kind == TREES:
        return TreeModel.load(folder)
    if kind != KIND:
        return Model.load(folder, device)
    weights, _ = _config(folder)
    return BlendModel([read_model(part, device) for part in _parts(folder, len(weights))], weights)


def standardised(models: Sequence[Any], features: Any, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each model's scores with mean 0 and standard deviation 1 in each list, `(documents, models)`; 0 where all tie."""
    columns = np.stack([model.score(features, offsets).astype(np.float64) for model in models], axis=1)
    lengths = np.diff(offsets)
    full = lengths > 0
    starts, lengths = offsets[:-1][full], lengths[full]
    if not len(starts):
        return columns

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.repeat(np.add.reduceat(values, starts) / lengths[:, None], lengths, axis=0)

    size = np.abs(columns).max(axis=0, initial=0.0)
    columns = columns - mean(columns)
    spread = np.sqrt(mean(columns**2))
    # What is left of a tie by rounding is no difference.
    told = spread > 1e-7 * size
    return np.where(told, columns / np.where(told, spread, 1.0), 0.0)


def _fit(columns: Tensor, labels: Tensor, loss: Any, even: float, lists: dict[str, Tensor]) -> NDArray[np.float64]:
    """Weights that add up to 1, and a scale that is forgotten: only the order counts, but a loss wants a scale."""
    logits = torch.zeros(columns.shape[1], dtype=torch.float64, requires_grad=True)
    scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits, scale], max_iter=100, line_search_fn="strong_wolfe")

    def value() -> Tensor:
        optimiser.zero_grad()
        shares = logits.log_softmax(0)
        uneven = (shares.exp() * (shares + np.log(len(shares)))).sum()  # 0 for equal weights
        total = loss(scale.exp() * (columns @ shares.exp()), labels, **lists) + even * uneven
        total.backward()
        return total

    optimiser.step(value)
    return logits.detach().softmax(0).numpy()


def _config(folder: Path) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """The weights and the settings of a blend, whose parts are those that it was saved with."""
    config = read_config(folder)
    if config.get("kind") != KIND:
        bad_value(str(folder), "hold a blend", f"a model of kind {config.get('kind', 'neural')!r}")
    weights, parts = config.get("weights"), config.get("parts")
    if not isinstance(weights, list) or not weights or not all(isinstance(weight, int | float) for weight in weights):
        bad_value(str(folder / CONFIG), "hold a weight for each part", weights)
    if any(folder.resolve().is_relative_to(part.resolve()) for part in _parts(folder, len(weights))):
        bad_value(str(folder), "hold its parts", "a part that leads back to itself")
    if parts is not None and parts != [_hash(part) for part in _parts(folder, len(weights))]:
        bad_value(str(folder), "hold the parts that it was saved with", "others: restore a copy, or save it again")
    return np.array(weights, dtype=np.float64), config.get("settings", {})


def _parts(folder: str | os.PathLike[str], count: int) -> list[Path]:
    return [Path(folder) / f"part-{place}" for place in range(1, count + 1)]


def _hash(part: Path) -> str | None:
    """Of a part's configuration, which in turn knows its other files; None where there is none."""
    path = part / CONFIG
    return hash_of(path.read_bytes()) if path.is_file() else None
