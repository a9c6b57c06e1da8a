"""What `--data` names: a known set, a folder, a LETOR file, or a cache; and where a run keeps what it was given."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.cli.argument_checks import is_first

if TYPE_CHECKING:
    from rankgrad.data import Dataset

KEPT = "data.json"  # in the folder of a run
PARTS = ("train", "validation", "test")
_KINDS: dict[str, Any] = {
    "data": str,
    "fold": int | None,
    "root": str | None,
    "cache": str | None,
    "missing": str | None,
    "holdout": int | float,
    "seed": int | None,
}


@dataclass(frozen=True)
class DataSource:
    """A data set as named on the command line."""

    data: str
    fold: int | None = None
    root: str | None = None
    cache: str | None = None
    missing: str | None = None  # a number, or "error"; None: the set's habit
    holdout: float = 0.0  # share of the training lists that is for validation where no part of the data is
    seed: int | None = 0  # that chooses these lists; None: as version 0.1 chose them, which noted no seed

    def check(self, named_in: Path | None = None) -> None:
        """See that it can be found; nothing is read. An error names the folder of the run that named it, if one did."""
        if named_in is not None:
            try:
                self.check()
            except (ValueError, OSError) as error:
                raise ValueError(f"{named_in / KEPT}: {error}") from error
            return
        from rankgrad.data import loading
        from rankgrad.data.splitting import check_share

        check_share(self.holdout)
        _ = self.fill
        if self._alone:
            return
        try:
            loading.check_source(self.data, fold=self.fold, root=self.root)
        except ValueError as error:  # which says what `load` was given; here it is an option
            raise ValueError(f"data{str(error).removeprefix('name')}" if str(error)[:5] == "name " else error) from None

    def read(self, features: int | None = None) -> dict[str, "Dataset"]:
        """Its parts by name: train, validation and test, as far as there are any. One file is one part, `train`.

        `features` are those of a file that may leave the last ones out.
        """
        from rankgrad.data import open_cache, read_letor
        from rankgrad.data.loading import load

        fill = self.fill
        if self.is_cache:
            return {"train": open_cache(self.data)}
        if self._alone:
            filled: Any = "error" if fill is None else fill
            return {"train": read_letor(self.data, features=features, cache=self.cache, missing=filled)}
        found = load(self.data, fold=self.fold, root=self.root, cache=self.cache, missing=fill, holdout=0.0)
        return {part: data for part in PARTS if (data := getattr(found, part)) is not None}

    def hold_out(self, parts: dict[str, "Dataset"]) -> dict[str, "Dataset"]:
        """The parts, with some lists of train held out as validation part if they have none."""
        from rankgrad.data import Splits
        from rankgrad.data.splitting import hold_out, hold_out_as_in_0_1

        if "validation" in parts or not self.holdout:
            return parts
        train = parts["train"]
        whole = Splits(train, None, train, train.name)
        held = (
            hold_out_as_in_0_1(whole, self.holdout) if self.seed is None else hold_out(whole, self.holdout, self.seed)
        )
        if held.validation is None:
            return parts
        return {"train": held.train, "validation": held.validation, **{k: v for k, v in parts.items() if k != "train"}}

    def keep(self, folder: Path) -> None:
        """Note in the folder of a run what it was given."""
        from rankgrad.atomic_files import write_json

        write_json(folder / KEPT, asdict(self), seal=True)

    @staticmethod
    def kept(folder: Path) -> "DataSource | None":
        """What a run was given; None where it is not noted.

        Without its cache: that is a place to write to, and the folder may come from anybody.
        """
        from rankgrad.atomic_files import read_json
        from rankgrad.errors import bad_value

        path = folder / KEPT
        if not path.is_file():
            return None
        told = read_json(path)
        wrong = {name: value for name, value in told.items() if not isinstance(value, _KINDS.get(name, ()))}
        if wrong or "data" not in told or not 0 <= told.get("holdout", 0.0) < 1:
            bad_value(str(path), "say what data a run was given; --data can say it instead", wrong or told)
        kept = replace(DataSource(**{"seed": None, **told}), cache=None)
        try:
            _ = kept.fill
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return kept

    @property
    def is_cache(self) -> bool:
        """Whether it is a folder that `rankgrad convert` wrote."""
        from rankgrad.data.cache import MANIFEST

        return (Path(self.data) / MANIFEST).is_file()

    @property
    def _alone(self) -> bool:
        return self.is_cache or Path(self.data).is_file()

    @property
    def fill(self) -> Any:
        """What is filled in for a missing value: a number, `"error"`, or None."""
        if self.missing is None or self.missing == "error":
            return self.missing
        try:
            return float(self.missing)
        except ValueError:
            raise ValueError(f"missing must be a number to fill in or 'error'; got {self.missing!r}") from None


@contextmanager
def telling(doing: str | None = None) -> Iterator[None]:
    """Say on a terminal what is being done; what is warned about meanwhile is told in one line each."""
    from rich.markup import escape

    from rankgrad.cli.terminal_text import screen

    console = screen(stderr=True, soft_wrap=True, quiet=not is_first())
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            with console.status(escape(doing)) if doing and console.is_terminal else nullcontext():
                yield
    finally:
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                console.print(f"warning: {warning.message}", style="yellow", markup=False, highlight=False)
