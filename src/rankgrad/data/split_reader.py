"""Read the files of a data set, split by split: LETOR text, tables or caches. All splits get the same features."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rankgrad.data.cache import open_cache
from rankgrad.data.dataset import Dataset, Splits
from rankgrad.data.folder_layouts import SPLITS, SplitFiles
from rankgrad.data.memory_limits import refuse_sparse, too_sparse
from rankgrad.data.sparse_rows import widen
from rankgrad.data.tables.reader import read_columns
from rankgrad.roles import Columns


class TableForm(NamedTuple):
    """Columns of the tables in a folder that `load` reads."""

    columns: Columns  # columns that the user named
    feature_names: Sequence[str] | None  # features of a model; None for the features of the training table
    # Categories of a model, by column name; None for the categories of the training table.
    categories: Mapping[str, tuple[str, ...]] | None


@dataclass(frozen=True)
class SplitReader:
    """Reader of the files of each split, and its options, which are those of `load`."""

    files: SplitFiles
    title: str  # name of the data set
    cache: Any
    missing: float | Literal["error", "nan"]
    regroup: bool
    sparse: bool
    verify: bool

    @property
    def paths(self) -> dict[str, tuple[Path, ...]]:
        """Paths of the files of each split that has files."""
        return {split: paths for split in SPLITS if (paths := getattr(self.files, split))}

    def caches(self) -> Splits:
        """Open the caches of a folder; each split is one cache."""
        parts = {split: open_cache(path, verify=self.verify) for split, (path,) in self.paths.items()}
        names = parts["train"].feature_names
        return self._splits(_as_wide({split: data.select_features(names) for split, data in parts.items()}))

    def tables(self, form: TableForm) -> Splits:
        """Read the tables of a folder. All splits have the features of the training table or of a model.

        Args:
            form: columns of the tables.
        """
        parts: dict[str, Dataset] = {}
        names, categories = form.feature_names, form.categories
        options: dict[str, Any] = {"missing": self.missing, "regroup": self.regroup, "verify": self.verify}
        for split, paths in self.paths.items():
            known = {"model": names, "categories": categories, "cache": self._cache_of(split)}
            data = parts[split] = read_columns(paths, form.columns, **known, **options)
            names, found = data.feature_names or (), data.categories or {}
            categories = {names[column]: values for column, values in found.items()}
        return self._splits(parts)

    def letor(self, width: int | None = None) -> Splits:
        """Read the LETOR files of a data set.

        Args:
            width: number of features; None for the largest id in the files.
        """
        sizes: dict[str, int] = {}
        parts = {split: self._letor(split, width, sizes) for split in self.paths}
        if self.sparse:
            return self._splits(_as_wide(parts))
        # The number of features of a file is its largest id. All splits get the maximum of these numbers.
        widest = max(part.features.shape[1] for part in parts.values())
        for split, part in parts.items():
            if part.features.shape[1] == widest:
                continue
            if too_sparse(len(part.labels), widest, sizes[split]):
                raise refuse_sparse(self.paths[split][0], None, len(part.labels), widest)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the same warnings as in the first reading
                parts[split] = self._letor(split, widest, sizes)
        return self._splits(parts)

    def _letor(self, split: str, width: int | None, sizes: dict[str, int]) -> Dataset:
        from rankgrad.data.letor.reader import read_letor

        return read_letor(
            self.paths[split],
            features=width,
            regroup=self.regroup,
            missing=self.missing,
            sparse=self.sparse,
            # The width is part of the name. Otherwise, loads with two widths would replace each other's cache.
            cache=self._cache_of(split if width is None else f"{split}-{width}"),
            verify=self.verify,
            report=lambda summary: sizes.update({split: summary.bytes}),
        )

    def _cache_of(self, name: str) -> Path | None:
        return None if self.cache is None else Path(self.cache) / self.title.replace(" ", "-") / name

    def _splits(self, parts: dict[str, Dataset]) -> Splits:
        named = {split: replace(data, name=f"{self.title} {split}") for split, data in parts.items()}
        return Splits(named["train"], named.get("validation"), named.get("test"), self.title)


def _as_wide(parts: dict[str, Dataset]) -> dict[str, Dataset]:
    """Return the splits with the number of features of the widest one; missing features are 0."""
    width = max(part.features.shape[1] for part in parts.values())
    return {
        split: part if part.features.shape[1] == width else replace(part, features=widen(part.features, width))
        for split, part in parts.items()
    }
