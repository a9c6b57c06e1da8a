"""Read a finished search from its folder: its result, and the models and held-out scores of its candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.atomic_files import read_json
from rankgrad.data import Dataset
from rankgrad.errors import bad_value
from rankgrad.models.auto.final_model import bag
from rankgrad.models.auto.fits import read_scores
from rankgrad.models.auto.run import RESULT, SEARCH
from rankgrad.models.auto.stored_lists import check_folds, content_hash, fold_numbers
from rankgrad.models.auto.students import STUDENT, student_folder
from rankgrad.models.blend import standardise_columns
from rankgrad.models.protocol import TrainedModel


@dataclass(frozen=True)
class SavedSearch:
    """A finished automatic search, which is read from its folder."""

    folder: Path
    settings: dict[str, Any]  # settings of the search
    lists: str  # hash of the lists of the search
    result: dict[str, Any]  # facts of `AutoResult`, without the models

    @classmethod
    def read(cls, folder: Path) -> "SavedSearch":
        """Read the search in a folder; raise an error if the search is not finished.

        Args:
            folder: folder of the search, which contains `search.json`.
        """
        path = folder / RESULT
        if not path.is_file():
            bad_value(
                str(folder),
                f"contain {RESULT}, the file of a finished search (to finish the search, run it again)",
                "no such file",
            )
        search = read_json(folder / SEARCH)
        return cls(folder, search["settings"], search["lists"], read_json(path))

    def bag(self, candidate: str) -> TrainedModel:
        """Return the bag of a candidate of the saved search: the average of the standardised scores of its fold models.

        Args:
            candidate: name of a candidate that has a model for each fold.
        """
        return bag([self.folder / f"{candidate}-{fold}" for fold in range(self.result["folds"])])

    def held_out(self, data: Dataset) -> "HeldOutLists | None":
        """Return the lists with held-out scores; return None if these are not the lists of the search.

        Args:
            data: lists of the search, in the same order.
        """
        data = data.without_numbers()
        if content_hash(data) != self.lists:
            return None
        numbers = fold_numbers(data, check_folds(data, self.settings["folds"]), self.settings["seed"])
        scored = numbers < self.result["folds"]
        return HeldOutLists(self, data.take(scored), numbers[scored])


@dataclass(frozen=True)
class HeldOutLists:
    """Lists of a search with held-out scores: the models that scored a list were not trained on it."""

    search: SavedSearch
    data: Dataset
    numbers: NDArray[np.int64]  # fold of each list, from 0

    def scores(self, members: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Return the weighted sum of the standardised scores of the members of an ensemble, `(documents,)`.

        Args:
            members: `candidate`, `model` and `weight` of each member.
        """
        owner = np.repeat(self.numbers, self.data.lengths)
        columns = np.zeros((len(owner), len(members)))
        for column, member in zip(columns.T, members, strict=True):
            for fold in range(self.search.result["folds"]):
                column[owner == fold] = read_scores(self._folder(member, fold))
        weights = np.array([member["weight"] for member in members])
        return np.asarray(standardise_columns(columns, self.data.offsets) @ weights)

    def _folder(self, member: Mapping[str, Any], fold: int) -> Path:
        if member["candidate"] == STUDENT:
            return student_folder(self.search.folder, member["model"]) / str(fold)
        return self.search.folder / f"{member['candidate']}-{fold}"
