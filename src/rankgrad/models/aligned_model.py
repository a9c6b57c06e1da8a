"""Let models of a blend take the same rows, although they were trained on other categories or orders of columns."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.data.categories import encode_distinct
from rankgrad.data.dataset import Categories
from rankgrad.data.tables.errors import some
from rankgrad.errors import bad_value
from rankgrad.models.protocol import Contributions, TrainedModel


class AlignedModel(TrainedModel):
    """A model that takes the columns and categories of a blend.

    Args:
        model: trained model.
        columns: for each feature of the model, its column in the rows of the blend.
        names: names of the features of the blend.
        categories: categories of the blend, by column.
    """

    def __init__(
        self, model: TrainedModel, columns: Sequence[int], names: tuple[str, ...] | None, categories: Categories
    ) -> None:
        self.model, self.columns = model, np.array(columns)
        self.features, self.feature_names, self.categories = model.features, names, categories or None
        self.settings, self.metrics, self.history = model.settings, model.metrics, model.history
        # For each categorical feature of the model, the position in its categories of each category of the blend.
        self.tables: dict[int, NDArray[np.float32]] = {}
        for feature, known in (model.categories or {}).items():
            wanted = categories[columns[feature]]
            table = encode_distinct(wanted, np.ones(len(wanted)), known, str(feature))[0]
            self.tables[feature] = np.append(table, np.float32(np.nan))

    @property
    def takes_missing(self) -> bool:
        """True if the model takes missing values."""
        return self.model.takes_missing

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Return the scores of the model, `(documents,)`.

        Args:
            features: rows of the blend, `(documents, f)`.
            offsets: offsets of the lists, `(lists + 1,)`; None if all documents are one list.
        """
        return self.model.score(self._rows(features), offsets)

    def contributions(self, features: NDArray[np.float32], first: int, second: int) -> Contributions:
        """Return the contributions of the columns of the blend to the scores of the model.

        Args:
            features, first, second: as in `TrainedModel.contributions`.
        """
        found = self.model.contributions(self._rows(features), first, second)
        values = np.zeros(self.features)
        values[self.columns] = found.values
        return found._replace(values=values)

    @property
    def size(self) -> int:
        """Size of the model."""
        return self.model.size

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the folder of the model itself.

        Args:
            folder: folder to write.
        """
        self.model.save(folder)

    def _rows(self, features: Any) -> Any:
        rows = features[:, self.columns]
        if not self.tables:
            return rows
        rows = np.array(rows, dtype=np.float32)
        for feature, table in self.tables.items():
            codes = rows[:, feature]
            rows[:, feature] = table[np.where(np.isnan(codes), len(table) - 1, codes).astype(np.int64)]
        return rows


def aligned(models: Sequence[TrainedModel]) -> list[TrainedModel]:
    """Return models that take the same rows: with the order of features of the first, and the categories of all.

    Args:
        models: trained models. It is an error if their features have different names, or if a feature is categorical
            for one of them only.
    """
    names = next((each for model in models if (each := getattr(model, "feature_names", None)) is not None), None)
    columns = [_columns(model, names) for model in models]
    union: dict[int, list[str]] = {}
    for model, places in zip(models, columns, strict=True):
        for feature, values in (model.categories or {}).items():
            known = union.setdefault(places[feature], [])
            known += [value for value in values if value not in known]
    categories = {column: tuple(union[column]) for column in sorted(union)}
    found = []
    for model, places in zip(models, columns, strict=True):
        own = {places[feature]: values for feature, values in (model.categories or {}).items()}
        if own.keys() != categories.keys():
            odd = min(own.keys() ^ categories.keys())
            name = repr(names[odd]) if names is not None else str(odd + 1)
            bad_value("models of a blend", "all have the same categorical features", f"feature {name} in some of them")
        same = own == categories and places == [*range(model.features)]
        found.append(model if same else AlignedModel(model, places, names, categories))
    return found


def _columns(model: TrainedModel, names: tuple[str, ...] | None) -> list[int]:
    """Return, for each feature of a model, its column in the rows of a blend with features of these names."""
    own = getattr(model, "feature_names", None)
    if own is None or names is None or own == names:
        return [*range(model.features)]
    if sorted(own) != sorted(names):
        bad_value("models of a blend", "have the same features", f"{some(names)} and {some(own)}")
    return [names.index(name) for name in own]
