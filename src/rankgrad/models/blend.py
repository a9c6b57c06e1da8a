"""Blend trained models: standardise the scores of each model per list, and return the weighted sum."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad import losses
from rankgrad.atomic_files import hash_of
from rankgrad.data import Dataset
from rankgrad.data.categories import recode
from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value
from rankgrad.models.aligned_model import aligned
from rankgrad.models.calibration import write_calibration
from rankgrad.models.folder import CONFIG, check_no_run, read_config, read_metrics, write_config, write_metrics
from rankgrad.models.protocol import Contributions, Exported, Listing, RankerKind, TrainedModel
from rankgrad.models.registry import load
from rankgrad.run import Callback
from rankgrad.spec import known_options, spell

KIND = "blend"
LOSS, EVEN = "xe_ndcg", 0.1


@dataclass
class BlendModel(TrainedModel):
    """Model whose scores are weighted sums of the scores of other models."""

    equal: ClassVar[float] = 1e-7  # scores are equal if standard deviation / largest absolute score <= this number
    negligible: ClassVar[float] = 1e-12  # a weighted sum becomes 0 if its absolute value is at most this number

    models: list[TrainedModel]
    weights: NDArray[np.float64]  # weights of the models, `(models,)`; each weight is at least 0, and the sum is 1
    settings: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    features: int = field(init=False)  # number of features

    def __post_init__(self) -> None:
        self.models = aligned(self.models)
        self.features, self.categories = int(self.models[0].features), self.models[0].categories
        if self.feature_names is None:
            known = (getattr(model, "feature_names", None) for model in self.models)
            self.feature_names = next((names for names in known if names is not None), None)

    @property
    def takes_missing(self) -> bool:
        """True if all models of the blend accept missing values."""
        return all(model.takes_missing for model in self.models)

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Return one score of the blend per document, `(documents,)`.

        Args:
            features: features of the documents, `(documents, f)`.
            offsets: offsets of the lists, `(lists + 1,)`; None if all documents are one list.
        """
        offsets = np.array([0, features.shape[0]]) if offsets is None else np.asarray(offsets, dtype=np.int64)
        scores = standardise_per_list(self.models, features, offsets) @ self.weights
        # If the models cancel each other, only rounding error is left, which a blend of blends would magnify.
        return np.where(np.abs(scores) > self.negligible, scores, 0.0).astype(np.float32)

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Return the contribution of each feature: the weighted sum of its contributions to the models of the blend.

        The mean and the standard deviation of a model's scores in the list are treated as constants. Therefore, the
        contributions sum exactly to the difference of the scores.

        Args:
            features: features of all documents of one list, `(n, f)`.
            first, second: positions of the two documents in the list, from 0.
        """
        values, others, error = np.zeros(self.features), dict[str, float](), 0.0
        for model, weight in zip(self.models, self.weights, strict=True):
            scores = model.score(features, np.array([0, len(features)])).astype(np.float64)
            spread = float(scores.std())
            if spread <= self.equal * float(np.abs(scores).max(initial=0.0)):
                continue  # equal scores of a list become 0
            part = model.contributions(features, first, second)
            values += weight / spread * part.values
            error += weight / spread * part.error
            for name, value in part.others.items():
                others[name] = others.get(name, 0.0) + weight / spread * value
        return Contributions(values, others, "weighted sum over the models of the blend", error)

    @property
    def size(self) -> int:
        """Number of parameters of all models in the blend, plus the number of weights."""
        return sum(model.size for model in self.models) + len(self.weights)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the folder of a blend, with `config.json` and one folder per model.

        Args:
            folder: folder to write.
        """
        check_no_run(folder)
        folder = Path(folder)
        for part, model in zip(parts_of(folder, len(self.models)), self.models, strict=True):
            model.save(part)
        write_metrics(folder, self.metrics)
        write_blend(folder, self.weights, self.settings, self.feature_names, self.categories)
        write_calibration(folder, self.calibration)

    def export(self, path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
        """Write all models of the blend and their weights as one ONNX file; see `rankgrad.models.blend_export`.

        Args:
            path: path of the file.
            format: `"onnx"`; None if the path ends in `.onnx`.
        """
        from rankgrad.models.blend_export import export

        return export(self, path, format=format)


class BlendKind(RankerKind):
    """Weighted sum of the scores of trained models; the weights are fitted on validation lists."""

    name = KIND

    def listing(self) -> list[Listing]:
        """Return the line for blends in the output of `rankgrad list models`."""
        return [Listing(KIND, "weighted sum of the scores of trained models", f"parts=runs/a|runs/b, even={EVEN}")]

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise an error if a setting of a blend is wrong; see `RankerKind.check`.

        Args:
            settings: settings `model`, `parts` (folders of models), `loss` and `even`.
        """
        known = _with_defaults(settings)
        check_blend_loss(known["loss"], known["even"])
        for part in known["parts"]:
            read_config(Path(part))

    def reads_missing(self, settings: Mapping[str, Any]) -> bool:
        """Return True if all models of the blend accept NaN; see `RankerKind.reads_missing`.

        Args:
            settings: settings of the blend, not yet checked.
        """
        from rankgrad.models.registry import load

        try:
            return all(load(Path(part)).takes_missing for part in _with_defaults(settings)["parts"])
        except (KeyError, TypeError, AttributeError, ValueError, OSError):
            return False  # `check` names the problem

    def fit(
        self,
        settings: Mapping[str, Any],
        train: Dataset,
        validation: Dataset | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        init_model: TrainedModel | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> BlendModel:
        """Fit the weights of the blend on the validation lists; see `RankerKind.fit`.

        No model of the blend may have been trained on the validation lists.

        Args:
            settings: settings that `check` accepts.
            train: training lists; they are used only if there are no validation lists.
            validation: lists on which the weights are fitted.
            out: folder for the model; None to write nothing.
            resume: ignored, because a blend is fitted in seconds.
            progress: ignored.
            init_model: must be None.
            callbacks: ignored, because there are no epochs.
        """
        if init_model is not None:
            bad_value(
                "init_model",
                "be None for a blend, because the parts of a blend are already trained",
                type(init_model).__name__,
            )
        known = _with_defaults(settings)
        models = [load(part) for part in known["parts"]]
        loss = check_blend_loss(known["loss"], known["even"])
        data = (train if validation is None else validation).without_numbers()
        models = aligned(models)
        data = recode(data.select_features(models[0].feature_names), models[0].categories)
        model = fit_weights(models, data, loss, known["even"])
        if out is not None:
            model.save(out)
        return model

    def load(self, folder: Path, device: str = "cpu") -> BlendModel:
        """Read a saved blend; see `RankerKind.load`.

        Args:
            folder: folder of the blend.
            device: device to compute on, for models of the blend that have a choice of device.
        """
        weights, settings = read_blend(folder)
        models = [load(part, device) for part in parts_of(folder, len(weights))]
        return BlendModel(models, weights, settings, read_metrics(folder))


BLEND = BlendKind()


def _with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return complete settings of a blend: `settings`, the options in the spec of the model, and defaults."""
    given = {**spell("model", str(settings.get("model", KIND))).options, **settings}
    given.pop("model", None)
    for name in ("metric", "seed"):  # a blend does not use these settings, which every run has
        given.pop(name, None)
    known_options(KIND, given, ("parts", "loss", "even"))
    parts = given.get("parts")
    parts = [part.strip() for part in parts.split("|")] if isinstance(parts, str) else parts
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
        bad_value("parts", "be folders of trained models, such as runs/a|runs/b", repr(parts))
    return {"loss": LOSS, "even": EVEN, **given, "parts": list(parts)}


def check_blend_loss(loss: str, even: float) -> Any:
    """Check and return the loss that the weights of a blend minimise; also check `even`.

    Args:
        loss: spec of the loss.
        even: strength of the preference for equal weights.
    """
    found = losses.parse_loss(loss)
    found.only_joint("a blend")
    if isinstance(even, bool) or not isinstance(even, int | float) or not 0 <= even < float("inf"):
        bad_value("even", "be at least 0 and finite", even)
    return found


def fit_weights(
    models: Sequence[TrainedModel],
    data: Dataset,
    loss: Any,
    even: float,
    weights: NDArray[np.float32] | None = None,
) -> BlendModel:
    """Fit the weights of a blend, and return the blend as a model.

    Args:
        models: trained models. All have the features of the lists.
        data: lists on which no model was trained, with the order of features of the first model, and with the
            categories of all models; see `aligned`.
        loss: loss that the weights of the blend minimise.
        even: strength of the preference for equal weights.
        weights: weights of the documents, `(documents,)`, for losses that use such weights.
    """
    wanted = {model.features for model in models}
    if wanted != {data.features.shape[1]}:
        bad_value(
            "rankers",
            f"all have {data.features.shape[1]} features, the number of features in the lists",
            f"rankers with these numbers of features: {', '.join(map(str, sorted(wanted)))}",
        )
    models = aligned(models)
    lists = {"offsets": torch.from_numpy(np.array(data.offsets, dtype=np.int64))}
    if weights is not None:
        lists["weights"] = torch.from_numpy(weights)
    columns = torch.from_numpy(standardise_per_list(models, data.features, data.offsets))
    shares = _shares(columns, torch.tensor(np.asarray(data.labels)), loss, even, lists)
    blend = BlendModel(list(models), shares, {"loss": str(loss), "even": float(even)})
    blend.feature_names = data.feature_names
    return blend


def standardise_per_list(models: Sequence[Any], features: Any, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return scores of the models of a blend, `(documents, models)`, with mean 0 and standard deviation 1 per list."""
    columns = np.stack([model.score(features, offsets).astype(np.float64) for model in models], axis=1)
    return standardise_columns(columns, offsets)


def standardise_columns(columns: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standardise columns of scores, `(documents, columns)`: to mean 0 and standard deviation 1 per list.

    If all scores of a list are equal, they become 0.
    """
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
    # If the spread is only rounding error, the scores are equal.
    differs = spread > BlendModel.equal * size
    return np.where(differs, columns / np.where(differs, spread, 1.0), 0.0)


def _shares(columns: Tensor, labels: Tensor, loss: Any, even: float, lists: dict[str, Tensor]) -> NDArray[np.float64]:
    """Fit and return the weights of a blend; the sum of the weights is 1.

    A scale of the scores is also fitted, because the loss depends on the scale. The scale is not returned, because the
    order of the documents does not depend on the scale.
    """
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


def write_blend(
    folder: Path,
    weights: NDArray[np.float64],
    settings: dict[str, Any],
    feature_names: Sequence[str] | None = None,
    categories: Categories | None = None,
) -> None:
    """Write the `config.json` of a blend. The folder must already contain the parts of the blend.

    Args:
        folder: folder of the blend.
        weights: weights of the parts.
        settings: settings of the fit.
        feature_names: names of the features; None if they are unknown.
        categories: categories of the categorical features, for programs that use an exported file; None without them.
    """
    parts = [_hash(part) for part in parts_of(folder, len(weights))]
    about = {"weights": weights.tolist(), "settings": settings, "parts": parts}
    write_config(folder, KIND, about, feature_names, categories)


def read_blend(folder: Path) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the weights and the settings of a blend; check that no part has changed since the blend was saved.

    Args:
        folder: folder of the blend.
    """
    config = read_config(folder)
    if config.get("kind") != KIND:
        bad_value(str(folder), "contain a blend", f"a model of kind {config.get('kind', 'neural')!r}")
    weights, parts = config.get("weights"), config.get("parts")
    if not isinstance(weights, list) or not weights or not all(isinstance(weight, int | float) for weight in weights):
        bad_value(str(folder / CONFIG), "contain one weight per part", weights)
    if any(folder.resolve().is_relative_to(part.resolve()) for part in parts_of(folder, len(weights))):
        bad_value(str(folder), "contain the parts of the blend", "a part that is a link to the blend itself")
    if parts is not None and parts != [_hash(part) for part in parts_of(folder, len(weights))]:
        bad_value(
            str(folder),
            "contain the parts with which the blend was saved (restore a copy, or save the blend again)",
            "different parts",
        )
    return np.array(weights, dtype=np.float64), config.get("settings", {})


def parts_of(folder: str | os.PathLike[str], count: int) -> list[Path]:
    """Return the folder of each part of a blend.

    Args:
        folder: folder of the blend.
        count: number of parts.
    """
    return [Path(folder) / f"part-{place}" for place in range(1, count + 1)]


def _hash(part: Path) -> str | None:
    """Return the hash of the `config.json` of a part of a blend; None if there is no such file."""
    path = part / CONFIG
    return hash_of(path.read_bytes()) if path.is_file() else None
