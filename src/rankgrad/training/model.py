"""A trained neural ranker with its preprocessing. It scores lists, and is saved in a folder that contains no code."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad import rankers
from rankgrad.atomic_files import read_tensors, under, write_tensors
from rankgrad.custom_objects import describe
from rankgrad.data import Dataset, Preprocessing
from rankgrad.data.sparse_rows import dense, rows_per_block
from rankgrad.errors import bad_value
from rankgrad.models.calibration import write_calibration
from rankgrad.models.folder import (
    CONFIG,
    categories_of,
    check_no_run,
    feature_names_of,
    read_config,
    read_metrics,
    write_config,
    write_metrics,
)
from rankgrad.models.protocol import Contributions, Exported, TrainedModel
from rankgrad.rankers.custom import CustomRanker, as_ranker
from rankgrad.rankers.embedded import EmbeddedCategories
from rankgrad.rankers.scorer import whole_number

WEIGHTS, PREPROCESSING = "model.safetensors", "preprocessing.safetensors"
_ROWS = 65_536  # number of documents that are scored together
_ALIGNED = 16  # for a ranker that scores each document alone, the number of rows is a multiple of this number


@dataclass
class Model(TrainedModel):
    """A ranker in evaluation mode, its preprocessing, and facts about its training.

    Scoring does not change the model, so several threads may use the same model.

    Example:
        >>> model = Model(rankers.build("linear", features=2), Preprocessing())
        >>> model.score(np.zeros((3, 2), dtype=np.float32), np.array([0, 3])).shape
        (3,)
    """

    importance_methods: ClassVar[tuple[str, ...]] = ("gradient",)

    ranker: nn.Module  # the network
    steps: Preprocessing  # fitted preprocessing
    settings: dict[str, Any] = field(default_factory=dict)  # settings of the training run
    metrics: dict[str, Any] = field(default_factory=dict)  # results of the training: epoch, validation, test, loss
    learned: dict[str, Tensor] = field(default_factory=dict)  # parameters of the loss, if it has any
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per epoch; empty after `load`
    run: str = ""  # identifier of the run, which shows if the files of a folder are from different runs
    features: int = field(init=False)  # number of feature columns

    def __post_init__(self) -> None:
        self.ranker.eval()
        self.features = int(self.ranker.config["features"]) - self.steps.added  # type: ignore[index]

    @property
    def device(self) -> torch.device:
        """Device of the weights of the neural model."""
        return next(self.ranker.parameters()).device

    def to(self, device: str | torch.device) -> "Model":
        """Move the neural model to a device, and return the model.

        Args:
            device: device of PyTorch.
        """
        self.ranker.to(device)
        return self

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Compute one score of the neural ranker per document, `(documents,)`.

        Args:
            features: raw features `(documents, f)`.
            offsets: offsets of the lists, `(lists + 1,)`; with None, all documents are one list.
        """
        if features.ndim != 2 or features.shape[1] != self.features:
            bad_value("features", f"have {self.features} columns, as in training", tuple(features.shape))
        offsets = np.array([0, features.shape[0]]) if offsets is None else np.asarray(offsets, dtype=np.int64)
        scores = np.empty(features.shape[0], dtype=np.float32)
        with torch.inference_mode():
            for first, last in list_ranges(offsets, rows_per_block(features, _ROWS)):
                rows = slice(offsets[first], offsets[last])
                part = offsets[first : last + 1] - offsets[first]
                ready = self.steps.transform(dense(features[rows]), part)
                count = len(ready)
                if not self.ranker.list_aware and count % _ALIGNED:
                    # A matrix product rounds the last rows differently if their number is not a multiple of 16. With
                    # padding, the score of a document does not depend on its row.
                    ready = np.pad(ready, ((0, -count % _ALIGNED), (0, 0)))
                    part = np.append(part, len(ready))
                width = int(np.diff(part).max(initial=0))
                given = torch.from_numpy(ready).to(self.device), torch.from_numpy(part).to(self.device)
                scores[rows] = self.ranker(*given, width=width)[:count].float().cpu().numpy()
        return scores

    def own_importance(self, method: str, data: Dataset | None) -> NDArray[np.float64]:
        """Return, for each feature, the mean absolute gradient times the standard deviation, `(lists, features)`.

        Both factors are computed from the preprocessed features.

        Args:
            method: `"gradient"`.
            data: lists.
        """
        from rankgrad.training.contributions import mean_gradients

        assert data is not None
        ranker, rows, sources = self._continuous(self._preprocessed(data.features, data.offsets))
        found = [
            mean_gradients(ranker, rows[part[0] : part[-1]], part - part[0])
            for part in (data.offsets[first : last + 1] for first, last in list_ranges(data.offsets))
        ]
        values = np.concatenate(found)[data.lengths > 0] * rows.astype(np.float64).std(axis=0)
        return self._per_feature(values, sources)

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Return contributions by integrated gradients; see `rankgrad.training.contributions`.

        Args:
            features: features of all documents of one list, `(n, f)`.
            first, second: positions of the two documents in the list, from 0.
        """
        from rankgrad.training.contributions import integrated_gradients

        rows = self._preprocessed(features, np.array([0, len(features)]))
        ranker, rows, sources = self._continuous(rows)
        values, rest, start, error = integrated_gradients(ranker, rows, first, second)
        values = self._per_feature(values[None], sources)[0]
        others = {"other documents": rest} if self.ranker.list_aware else {}
        # At the start of the path, all documents are equal. So only their positions in the input can matter.
        others |= {"positions in the input": start} if start else {}
        return Contributions(values, others, "integrated gradients", error)

    def _preprocessed(self, features: Any, offsets: NDArray[np.int64]) -> NDArray[np.float32]:
        if features.ndim != 2 or features.shape[1] != self.features:
            bad_value("features", f"have {self.features} columns, as in training", tuple(features.shape))
        rows: NDArray[np.float32] = self.steps.transform(dense(features), np.asarray(offsets, dtype=np.int64))
        return rows

    def _continuous(self, rows: NDArray[np.float32]) -> tuple[nn.Module, NDArray[np.float32], NDArray[np.int64]]:
        """Return a network whose input columns are continuous, the input, and the raw feature of each column.

        The number of a category is not continuous. So the columns contain the embedding vector of the category instead.
        """
        sources = self.steps.sources(self.features)
        if not isinstance(self.ranker, EmbeddedCategories):
            return self.ranker, rows, sources
        with torch.no_grad():
            embedded = self.ranker.embed(torch.from_numpy(rows).to(self.device)).cpu().numpy()
        return self.ranker.network, embedded, sources[self.ranker.sources()]

    def _per_feature(self, values: NDArray[np.float64], sources: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return, for each raw feature, the sum of the values over the columns of the feature, `(rows, features)`."""
        total = np.zeros((self.features, len(values)))
        np.add.at(total, sources, values.T)
        return total.T

    @property
    def takes_missing(self) -> bool:
        """True if the features for this neural model may be NaN."""
        return self.steps.takes_missing

    @property
    def size(self) -> int:
        """Number of parameters of the ranker."""
        return sum(parameter.numel() for parameter in self.ranker.parameters())

    def export(self, path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
        """Write the model as one file for other programs, `.onnx` or `.pt2`; see `rankgrad.training.export`.

        Args:
            path: path of the file.
            format: `"onnx"`, `"torch"`, or for a linear ranker `"elasticsearch"` or `"solr"`. With None, the extension
                of the path determines the format.
        """
        from rankgrad.training.export import export

        return export(self, path, format=format)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with `config.json`, `model.safetensors`, `preprocessing.safetensors` and `metrics.json`."""
        check_no_run(folder)
        self.save_config(Path(folder))
        self.save_weights(Path(folder))
        write_calibration(folder, self.calibration)

    def save_config(self, folder: Path) -> None:
        """Write the configuration and the preprocessing, which do not change during training.

        Args:
            folder: folder of the model.
        """
        steps, arrays = self.steps.to_config()
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        write_tensors(folder / PREPROCESSING, tensors, self._run)
        ranker, settings = self.ranker.config, self.settings
        about = {"ranker": ranker, "preprocessing": steps, "settings": settings, **self._run}
        write_config(folder, None, about, self.feature_names, self.categories)

    def save_weights(self, folder: Path) -> None:
        """Write the files that change during training: the weights and the metrics.

        Args:
            folder: folder of the model.
        """
        weights = {f"ranker.{name}": tensor for name, tensor in self.ranker.state_dict().items()}
        learned = {f"loss.{name}": tensor for name, tensor in self.learned.items()}
        write_metrics(folder, self.metrics)
        write_tensors(folder / WEIGHTS, {**weights, **learned}, self._run)

    @property
    def _run(self) -> dict[str, str]:
        return {"run": self.run} if self.run else {}

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device = "cpu", model: Any = None) -> "Model":
        """Read a neural model from its folder. No content of the folder is run, imported or unpickled.

        Args:
            folder: folder that `save` or a training run wrote.
            device: device of the weights.
            model: custom network (the result contains a copy), or a function that returns a custom network. It is
                required if the folder contains the weights of a custom network; otherwise, it must be None.
        """
        folder = Path(folder)
        config = read_config(folder)
        _check_custom(folder, config.get("ranker"), model)
        for name, missing in ((WEIGHTS, "the training stopped before the end of the first epoch"), (PREPROCESSING, "")):
            if not (folder / name).is_file():
                bad_value(str(folder), f"contain {name}", f"no such file{missing and f': {missing}'}")
        arrays, of_arrays = read_tensors(folder / PREPROCESSING)
        tensors, of_tensors = read_tensors(folder / WEIGHTS)
        runs = {CONFIG: config.get("run"), PREPROCESSING: of_arrays.get("run"), WEIGHTS: of_tensors.get("run")}
        if len({str(run) for run in runs.values() if run}) > 1:
            bad_value(
                str(folder),
                f"contain {', '.join(runs)} from the same training run (otherwise, train or save the model again)",
                "files from different runs",
            )
        try:
            steps = Preprocessing.from_config(
                config["preprocessing"], {name: value.numpy() for name, value in arrays.items()}
            )
            ranker = _ranker(config["ranker"], under("ranker.", tensors), model)
            features = int(ranker.config["features"]) - steps.added  # type: ignore[index]
            # This raises an error if the preprocessing has a different number of features.
            steps.transform(np.zeros((1, features), dtype=np.float32), np.array([0, 1]))
        except (KeyError, TypeError, AttributeError, RuntimeError, ValueError, OverflowError) as error:
            got = f"the error {str(error).strip()}"
            bad_value(str(folder), "be a model whose files match each other", got)
        known = {"learned": under("loss.", tensors), "run": config.get("run", "")}
        loaded = cls(ranker.to(device), steps, config.get("settings", {}), read_metrics(folder), **known)
        loaded.feature_names = feature_names_of(folder, loaded.features)
        loaded.categories = categories_of(folder, loaded.features)
        return loaded


def _check_custom(folder: Path, config: Any, model: Any) -> None:
    """Check that `model` is a custom network if the folder contains the weights of one, and None otherwise."""
    custom = isinstance(config, dict) and config.get("model") == CustomRanker.model
    if custom == (model is not None):
        return
    if not custom:
        bad_value("model", f"be None, because {folder} contains the description of its network", describe(model))
    about = "".join(each for each in str(config.get("description"))[:200] if each.isprintable())
    name = about.rpartition(".")[2]
    must = f"be given, because {folder} contains the weights of a custom network ({about})"
    bad_value("model", f"{must}: Model.load(folder, model={name}())", None)


def _ranker(config: dict[str, Any], weights: dict[str, Tensor], model: Any) -> nn.Module:
    """Return a neural ranker that has these weights. Check all shapes before memory is allocated."""
    numbers = sum(weight.numel() for weight in weights.values())
    _check_sizes(config, len(weights), numbers)
    if model is not None:
        ranker: nn.Module = as_ranker(model, whole_number("features", config["features"]))
        _compare(config, ranker, weights)
    else:
        with torch.device("meta"):
            _compare(config, rankers.build(**config), weights)
        ranker = rankers.build(**config)
    ranker.load_state_dict(weights)
    return ranker


def _check_sizes(config: dict[str, Any], tensors: int, numbers: int) -> None:
    """Check, before memory is allocated, that no option of a network is too large for the number of weights."""
    for option, value in config.items():
        if isinstance(value, dict):
            _check_sizes(value, tensors, numbers)
            continue
        most = tensors if option in ("blocks", "layers") else numbers
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, int | float) and not abs(each) <= max(most, 100):
                bad_value(f"the option {option}", f"fit to {WEIGHTS}, which contains {numbers} numbers", each)


def _compare(config: dict[str, Any], ranker: nn.Module, weights: dict[str, Tensor]) -> None:
    wanted = {name: tuple(weight.shape) for name, weight in ranker.state_dict().items()}
    for name in sorted(wanted.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else None
        if found != wanted.get(name):
            must = f"contain {name} of shape {wanted[name]}" if name in wanted else f"not contain {name}"
            got = "no such tensor" if found is None else f"a tensor of shape {found}"
            bad_value(f"{WEIGHTS} for {config.get('model')}", must, got)


def list_ranges(offsets: NDArray[np.int64], rows: int = _ROWS) -> Iterator[tuple[int, int]]:
    """Yield ranges of lists that a model scores together, as pairs (first, end), where `end` is not included.

    A range has at most `rows` documents. A list with more documents is a separate range.
    """
    first, lists = 0, len(offsets) - 1
    while first < lists:
        last = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), lists)
        yield first, last
        first = last
