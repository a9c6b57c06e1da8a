"""A model of boosted trees, which scores lists. `save` writes a file in the framework's format and JSON files."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import hash_of, write_bytes
from rankgrad.data import Dataset
from rankgrad.data.sparse_rows import canonical, dense, is_sparse
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
from rankgrad.tree_frameworks import FILES
from rankgrad.trees.foreign_models import booster_of, checked_booster, names_of, read_foreign
from rankgrad.trees.frameworks import TreeFramework, framework_named

KIND = "trees"
_ROWS = 16_384  # number of rows of a sparse matrix that become dense at a time


@dataclass
class TreeModel(TrainedModel):
    """A booster of LightGBM or XGBoost with the best number of trees, and facts about the training."""

    unit: ClassVar[str] = "tree"
    importance_methods: ClassVar[tuple[str, ...]] = ("gain", "split")

    booster: Any  # booster of the framework; `from_booster` finds the other values
    framework: str  # name of the framework
    features: int  # number of feature columns
    settings: dict[str, Any] = field(default_factory=dict)  # settings of the training run
    metrics: dict[str, Any] = field(default_factory=dict)  # results of the training: trees, validation, test, loss
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per tree; empty after `load`
    zero_missing: bool = False  # True if 0 is a missing value; this is so if XGBoost trained on a sparse matrix
    trained_missing: bool | None = None  # True if the training lists had missing values; None if this is unknown

    def __post_init__(self) -> None:
        found, framework = booster_of(self.booster)
        features = framework_named(framework).features(found)
        if (framework, features) != (self.framework, self.features):
            got = f"{features} features of {framework}"
            bad_value("booster", f"have {self.features} features, and be of {self.framework}", got)
        self.booster = found
        if self.feature_names is None:
            self.feature_names = names_of(self.booster, self.framework)

    @classmethod
    def from_booster(
        cls,
        booster: Any,
        *,
        feature_names: Sequence[str] | None = None,
        categorical: Sequence[Any] | None = None,
        zero_missing: bool = False,
    ) -> "TreeModel":
        """Return a model of trees that LightGBM or XGBoost trained without rankgrad, with all methods of a model.

        The scores are the raw scores of the framework, for example without the sigmoid of a binary objective, and sums
        over the trees of a random forest. An estimator scores with its best number of trees, and a booster of XGBoost
        with all trees.

        Args:
            booster: booster or fitted estimator of LightGBM or XGBoost, or the path of a model file.
            feature_names: names of the features; with None, the names in the model, in which LightGBM replaces blanks
                by `_`.
            categorical: names or positions of the columns that were categorical in the data frame of the training.
                With None, they are found in the model.
            zero_missing: True if 0 was a missing value in the training. This is so if XGBoost trained on a sparse
                matrix, whose other entries are missing values for XGBoost.
        """
        found = read_foreign(booster, feature_names, categorical)
        model = cls(found.booster, found.framework, framework_named(found.framework).features(found.booster))
        if feature_names is not None:
            model.feature_names = tuple(map(str, feature_names))
        model.categories, model.zero_missing = found.categories, zero_missing or found.zero_missing
        return model

    @property
    def takes_missing(self) -> bool:
        """Always True: trees send NaN to one side of each split."""
        return True

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Compute one score of the boosted trees per document, `(documents,)`.

        Args:
            features: features `(documents, f)`; NaN is a missing value.
            offsets: no effect, because trees score each document independently.
        """
        if features.ndim != 2 or features.shape[1] != self.features:
            bad_value("features", f"have {self.features} columns, as in training", tuple(features.shape))
        if features.shape[0] == 0:
            return np.empty(0, dtype=np.float32)
        if self._described.sparse_missing and is_sparse(features):
            parts = [features[start : start + _ROWS] for start in range(0, features.shape[0], _ROWS)]
            return np.concatenate([self.score(dense(part)) for part in parts])
        return np.asarray(self._described.scores(self.booster, self._rows(features)), dtype=np.float32)

    @property
    def _described(self) -> TreeFramework:
        return framework_named(self.framework)

    def _rows(self, features: Any) -> Any:
        """Convert the features for boosted trees to float32. If `zero_missing` is True, replace 0 by NaN."""
        if is_sparse(features):
            rows = canonical(features).astype(np.float32, copy=False)
        else:
            rows = np.asarray(features, dtype=np.float32)
        return np.where(rows == 0, np.float32(np.nan), rows) if self.zero_missing else rows

    @property
    def size(self) -> int:
        """Number of leaves in all trees."""
        return self._described.leaves(self.booster)

    @property
    def kept(self) -> int:
        """Number of trees that the training added to the model. The trees of `init_model` are not counted."""
        return int(self.metrics.get("trees", 0))

    @property
    def rounds(self) -> int:
        """Total number of trees. If XGBoost grows several trees per round, this is the number of rounds."""
        return self._described.rounds(self.booster)

    def content(self) -> bytes:
        """Return the content of a model file in the format of the framework."""
        return self._described.content(self.booster)

    def export(self, path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
        """Write the model as one file, for ONNX, the framework or a search engine; see `rankgrad.trees.export`.

        Args:
            path: path of the file.
            format: `"onnx"`, the name of the framework, `"elasticsearch"`, `"ranklib"`, `"solr"` or `"vespa"`. With
                None, the extension of the path determines the format.
        """
        from rankgrad.trees.export import export

        return export(self, path, format=format)

    def own_importance(self, method: str, data: Dataset | None) -> NDArray[np.float64]:
        """Return, for each feature, its share of the total gain or of the number of splits, `(1, features)`.

        Args:
            method: `"gain"` or `"split"`.
            data: not used.
        """
        found = self._described.importance(self.booster, method)
        return (found / max(float(found.sum()), np.finfo(np.float64).tiny))[None]

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Return the differences between the TreeSHAP values of two documents. The framework computes these values.

        Args:
            features: features of all documents of one list, `(n, f)`.
            first, second: positions of the two documents in the list, from 0.
        """
        shap = self.shap_values(np.asarray(features)[[first, second]])
        return Contributions(shap[0, :-1] - shap[1, :-1], {}, "TreeSHAP differences")

    def shap_values(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the TreeSHAP values of documents, `(documents, f + 1)`; the last column is the mean score.

        The sum of a row is the score of the document.

        Args:
            features: features `(documents, f)`; NaN is a missing value.
        """
        return self._described.shap_values(self.booster, self._rows(dense(features)))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with the booster in the format of its framework, `config.json` and `metrics.json`."""
        check_no_run(folder)
        folder = Path(folder)
        content, name = self.content(), FILES[self.framework]
        write_bytes(folder / name, content)
        write_metrics(folder, self.metrics)
        about = {"framework": self.framework, "features": self.features, "settings": self.settings}
        # A file in the format of the framework has no field for a hash. So the hash is in the configuration.
        about["files"] = {name: hash_of(content)}
        about |= {"zero_missing": True} if self.zero_missing else {}
        about |= {} if self.trained_missing is None else {"trained_missing": self.trained_missing}
        write_config(folder, KIND, about, self.feature_names, self.categories)
        write_calibration(folder, self.calibration)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "cpu") -> "TreeModel":
        """Read boosted trees from their folder. No content of the folder is run or unpickled.

        Args:
            folder: folder that `save` wrote, or a model file of LightGBM (text) or XGBoost (JSON).
            device: no effect on trees.
        """
        folder = Path(folder)
        if folder.is_file():
            return cls.from_booster(folder)
        config = read_config(folder)
        name = config.get("framework")
        if config.get("kind") != KIND or name not in [*FILES]:
            bad_value(str(folder), "contain boosted trees", f"a model of kind {config.get('kind', 'neural')!r}")
        path = folder / FILES[name]
        if not path.is_file():
            bad_value(str(folder), f"contain {path.name}", "no such file")
        content, files = path.read_bytes(), config.get("files", {})
        if not isinstance(files, dict) or files.get(path.name, hash_of(content)) != hash_of(content):
            bad_value(
                str(path), f"match its hash in {CONFIG} (otherwise, restore a copy or train again)", "different content"
            )
        features, settings = config.get("features"), config.get("settings", {})
        if type(features) is not int or features < 1:
            bad_value(f"features in {folder / CONFIG}", "be an integer of at least 1", repr(features)[:40])
        if not isinstance(settings, dict):
            bad_value(f"settings in {folder / CONFIG}", "be a JSON object", repr(settings)[:40])
        booster = checked_booster(path, content, name, features)
        model = cls(booster, name, features, settings, read_metrics(folder))
        model.feature_names = feature_names_of(folder, features)
        model.categories = categories_of(folder, features)
        model.zero_missing = config.get("zero_missing") is True
        trained_missing = config.get("trained_missing")
        model.trained_missing = trained_missing if isinstance(trained_missing, bool) else None
        return model
