"""Read the data of the option `--data`, and record this option in the folder of a run.

The data is a data set, a folder, a LETOR file, a table or a cache.
"""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from fnmatch import filter as filter_names
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.cli.argument_checks import is_first
from rankgrad.cli.missing_option import fill_of
from rankgrad.errors import Problems, bad_value, located, name_settings
from rankgrad.roles import ALL, ROLES, SEVERAL, Columns

if TYPE_CHECKING:
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel

KEPT = "data.json"  # file that records the data of a run, in the folder of the run
_SHOWN = 50  # largest number of names of features in a message
PARTS = ("train", "validation", "test")
_KINDS: dict[str, Any] = {
    "data": str,
    "fold": int | None,
    "root": str | None,
    "cache": str | None,
    "missing": str | None,
    "holdout": int | float,
    "seed": int | None,
    "columns": dict,
    "regroup": bool,
    "sparse": bool,
    "trained": list,
}


@dataclass(frozen=True)
class DataSource:
    """Options of the command line that determine the data."""

    data: str
    fold: int | None = None
    root: str | None = None
    cache: str | None = None
    missing: str | None = None  # a value of the option, or None for the default of the data set
    holdout: float = 0.0  # share of the training lists to hold out for validation, if the data has no validation part
    seed: int | None = 0  # random seed of the held-out lists; None for runs of version 0.1, which recorded no seed
    columns: Columns | None = None  # columns of a table; None to find the columns by usual names
    regroup: bool = False  # True to accept rows of a query that are not adjacent
    format: str | None = None  # format of the file; None to choose it by the ending of its name
    sparse: bool = False  # True to read LETOR text as sparse matrices
    trained: tuple[str, ...] = ("train",)  # parts on which the recorded model was trained

    def check(self, named_in: Path | None = None) -> None:
        """Check that the data of `--data` exists, without reading the data.

        Args:
            named_in: folder of the run that recorded this source; errors contain the path of the record. None if the
                source is not from a record.
        """
        from rankgrad.data import loading
        from rankgrad.data.splitting import check_share

        if named_in is not None:
            try:
                self.check()
            except (ValueError, OSError) as error:
                raise located(error, str(named_in / KEPT)) from error
            return
        check_share(self.holdout)
        _ = self.fill
        if self.is_single:
            self._check_columns(self.is_table)
            return
        path = Path(self.data)
        named = any(known(self.data) for known in (loading.is_benchmark, loading.is_generated, loading.is_text))
        if not path.exists() and not named and (path.suffix or os.sep in self.data):
            raise FileNotFoundError(f"{self.data}: no such file or folder; expected a data set")
        try:
            loading.check_source(self.data, fold=self.fold, root=self.root)
        except Problems as error:  # the error names the argument of `load`; the option is `data`
            if loading.is_generated(self.data):
                raise located(error, f"--data {self.data}") from None
            raise error.renamed("name", "data") from None

    def read(self, model: "TrainedModel | None" = None, *, labelled: bool = True) -> dict[str, "Dataset"]:
        """Read the data, and return its parts by name: train, validation, test. A single file is the part `train`.

        Args:
            model: model that scores the data. A table must have the columns of the model. LETOR text is read with the
                number of features of the model.
            labelled: True if a table must have labels.
        """
        from rankgrad.cli.shared_options import options
        from rankgrad.data.loading import load

        if self.is_single:
            parts = {"train": self._read_single(model, labelled)}
            return self._encoded(self._widened(parts, model) if labelled else parts, model)
        given: dict[str, Any] = {"fold": self.fold, "root": self.root, "cache": self.cache, "sparse": self.sparse}
        given |= {"missing": self.fill_for(model), "columns": self.columns, "regroup": self.regroup}
        given |= {
            "feature_names": None if model is None else model.feature_names,
            "categories": categories_by_name(model),
        }
        found = load(self.data, holdout=0.0, verify=options.verify, **given)
        return self._encoded(self._widened(found.parts(), model), model)

    def _encoded(self, parts: dict[str, "Dataset"], model: "TrainedModel | None") -> dict[str, "Dataset"]:
        """Return the parts with encoded categories, if `--categorical` names features of LETOR text."""
        if parts["train"].feature_names is not None:
            return parts
        if model is not None:
            return {name: with_categories_of(model, part) for name, part in parts.items()}
        columns = _feature_numbers(self.columns, parts["train"].features.shape[1])
        if not columns:
            return parts
        from rankgrad.data.categories import encode_features

        train = encode_features(parts["train"], columns)
        others = {name: part for name, part in parts.items() if name != "train"}
        return {"train": train} | {
            name: encode_features(part, columns, train.categories) for name, part in others.items()
        }

    def _widened(self, parts: dict[str, "Dataset"], model: "TrainedModel | None") -> dict[str, "Dataset"]:
        """Return lists of LETOR text with all features of the model; missing features are set to 0."""
        from rankgrad.data.sparse_rows import widen

        width = parts["train"].features.shape[1]
        if model is None or width >= model.features or parts["train"].feature_names is not None:
            return parts
        self._warn_of_missing(width, model)
        return {name: replace(part, features=widen(part.features, model.features)) for name, part in parts.items()}

    def _warn_of_missing(self, width: int | None, model: "TrainedModel | None") -> None:
        if width is not None and model is not None and width < model.features:
            needs = f"the model needs {model.features}; the missing features are set to 0"
            warnings.warn(f"{self.data} has {width} features, but {needs}", stacklevel=4)

    def _read_single(self, model: "TrainedModel | None", labelled: bool) -> "Dataset":
        from rankgrad.cli.shared_options import options as shared
        from rankgrad.data import open_cache, read_letor
        from rankgrad.data.tables.reader import read_columns

        fill = self.fill_for(model)
        options: dict[str, Any] = {"missing": "error" if fill is None else fill, "cache": self.cache}
        options |= {"verify": shared.verify}
        if self.is_cache:
            return open_cache(self.data, verify=shared.verify)
        if not self.is_table:
            features = None if model is None else model.features
            seen: list[Any] = []
            options |= {"sparse": self.sparse, "report": seen.append}
            data = read_letor(self.data, features=features, regroup=self.regroup, **options)
            if seen:
                self._warn_of_missing(seen[0].widest, model)
            return data
        names = None if model is None else model.feature_names
        options |= {"labelled": labelled, "model": names, "format": self.format, "regroup": self.regroup}
        options["categories"] = categories_by_name(model)
        return read_columns(self.data, self.columns or Columns(), **options)

    def id_columns(self, model: "TrainedModel") -> dict[str, str]:
        """Return the names of the columns of ids, by role; the input may have no names.

        Args:
            model: model that scores the rows.
        """
        from rankgrad.data.tables.columns import choose
        from rankgrad.data.tables.files import open_table

        if not self.is_table:
            return {}
        table = open_table(self.data, self.format)
        options: dict[str, Any] = {"partitions": table.partitions, "model": model.feature_names}
        options["typed"] = [*table.typed, *(categories_by_name(model) or ())]
        return dict(choose(self.columns or Columns(), table.numeric, labelled=False, **options).by_role)

    def with_options_of(self, folder: Path) -> "DataSource":
        """Return the data source, with missing options replaced by the recorded options of a model's training.

        An option of this source is never replaced; each column is a separate option. Recorded columns that the table
        does not have are ignored. The features are the features of the model.

        Args:
            folder: folder of the model.
        """
        kept = DataSource.kept(folder)
        if kept is None:
            return self
        own = replace(self, missing=self.missing or kept.missing, regroup=self.regroup or kept.regroup)
        own = replace(own, sparse=self.sparse or kept.sparse)
        return own if kept.columns is None else own._with_columns(kept.columns)

    def _with_columns(self, kept: Columns) -> "DataSource":
        from rankgrad.data.folder_layouts import find_files
        from rankgrad.data.tables.files import format_of, open_table

        files = find_files(Path(self.data), fold=self.fold)
        texts_or_caches = files is not None and not any(map(format_of, files.train))
        if texts_or_caches or (self.is_single and not self.is_table):
            return self
        own = self.columns or Columns()
        given = {role.name: name for role in ROLES if (name := getattr(own, role.name)) is not None}
        if not self.is_table:
            given |= {role.name: values for role in SEVERAL if (values := getattr(own, role.name))}
            return replace(self, columns=replace(kept, **{"features": None, **given}))
        names = open_table(self.data, self.format).names
        known = {role.name: name for role in ROLES if (name := getattr(kept, role.name)) in names}
        others = (*kept.drop, *kept.training_columns)
        drop = [pattern for pattern in others if pattern in names or filter_names(names, pattern)]
        drop += [pattern for pattern in own.drop if pattern not in drop]
        return replace(self, columns=replace(own, **{**known, **given, "drop": tuple(drop)}))

    def _check_columns(self, table: bool) -> None:
        if self.columns is not None and replace(self.columns, categorical=()) and not table:
            given = next(name for name, value in asdict(self.columns).items() if value)
            bad_value(given, f"be given only for a table, and {self.data} is not a table", getattr(self.columns, given))

    def hold_out(self, parts: dict[str, "Dataset"]) -> dict[str, "Dataset"]:
        """Hold out some lists of `train` as the validation part, if there is no such part; return the parts."""
        from rankgrad.data import Splits
        from rankgrad.data.splitting import hold_out, hold_out_as_in_0_1

        if "validation" in parts or not self.holdout:
            return parts
        train = parts["train"]
        whole = Splits(train, None, None, train.name)
        split = (
            hold_out_as_in_0_1(whole, self.holdout) if self.seed is None else hold_out(whole, self.holdout, self.seed)
        )
        if split.validation is None:
            return parts
        return {
            "train": split.train,
            "validation": split.validation,
            **{k: v for k, v in parts.items() if k != "train"},
        }

    def absolute(self) -> "DataSource":
        """Return the data source with absolute paths, for all working directories. Names of data sets do not change."""
        from rankgrad.data.loading import is_benchmark, is_generated, text_source

        def absolute(path: str | None) -> str | None:
            return None if path is None else os.path.abspath(path)

        data, root = self.data, self.root
        if (texts := text_source(data)) is not None:
            return replace(self, data=texts.absolute(root), root=None, cache=absolute(self.cache))
        if self.is_single or not (is_benchmark(data) or is_generated(data)):
            data = os.path.abspath(data)
        elif is_benchmark(data) and root is None and "RANKGRAD_DATA" not in os.environ:
            root = "."  # `load` searches the current folder
        return replace(self, data=data, root=absolute(root), cache=absolute(self.cache))

    def keep(self, folder: Path) -> None:
        """Record the data source in the folder of a run, with absolute paths."""
        from rankgrad.atomic_files import write_json

        write_json(folder / KEPT, self.absolute().to_json(), seal=True)

    def to_json(self) -> dict[str, Any]:
        """Return the options that determine the data, as JSON values. Options of tables are included only if given."""
        found = asdict(self)
        del found["format"]
        columns = {name: value for name, value in (found.pop("columns") or {}).items() if value}
        given: dict[str, Any] = {name: True for name in ("regroup", "sparse") if found.pop(name)}
        given |= {"trained": list(trained)} if (trained := found.pop("trained")) != DataSource.trained else {}
        return {**found, **({"columns": columns} if columns else {}), **given}

    @staticmethod
    def kept(folder: Path) -> "DataSource | None":
        """Return the data source that a run recorded; None if there is no record. The folder of a text run is an error.

        The path of the cache is set to None. Commands would write to this path, and the record may come from an
        untrusted source.
        """
        from rankgrad.atomic_files import read_json
        from rankgrad.cli.text.training_lists import KEPT as TEXT

        path = folder / KEPT
        if (folder / TEXT).is_file():
            bad_value(str(folder), "be a ranker that uses features (or use `rankgrad text`)", "a text ranker")
        if not path.is_file():
            return None
        return DataSource.from_json(read_json(path), path)

    @staticmethod
    def from_json(record: dict[str, Any], path: Path) -> "DataSource":
        """Return the data source that `to_json` wrote to a file. The path of the cache is set to None, as in `kept`."""
        wrong = {name: value for name, value in record.items() if not isinstance(value, _KINDS.get(name, ()))}
        if wrong or "data" not in record or not 0 <= record.get("holdout", 0.0) < 1:
            bad_value(str(path), "record the data of a run (or use --data to name the data)", wrong or record)
        options = {name: value for name, value in record.items() if name != "columns"}
        options |= {"trained": tuple(record["trained"])} if "trained" in record else {}
        source = replace(DataSource(**{"seed": None, **options}), cache=None)
        try:
            source = replace(source, columns=_columns(record["columns"]) if "columns" in record else None)
            _ = source.fill
        except ValueError as error:
            raise located(error, str(path)) from None
        return source

    @property
    def is_cache(self) -> bool:
        """True if the data is a folder that `rankgrad convert` wrote."""
        from rankgrad.data.cache import MANIFEST

        return (Path(self.data) / MANIFEST).is_file()

    @property
    def is_single(self) -> bool:
        """True if the data is one file, table or cache, which has no splits."""
        return self.is_cache or Path(self.data).is_file() or self.is_table

    @property
    def is_table(self) -> bool:
        """True if the data is a table: a file with the ending of one, or a folder of Parquet files without splits."""
        from rankgrad.data.folder_layouts import find_files, has_folds
        from rankgrad.data.loading import is_benchmark, is_generated
        from rankgrad.data.tables.files import format_of

        path = Path(self.data)
        if self.format is not None:
            return self.format != "letor"
        if not path.is_dir():
            return path.is_file() and format_of(path) is not None
        if self.is_cache or is_benchmark(self.data) or is_generated(self.data) or has_folds(path):
            return False
        return find_files(path) is None and format_of(path) is not None

    @property
    def fill(self) -> Any:
        """Number that replaces missing values, `"error"` to reject them, or None for the default of the data set."""
        return fill_of(self.missing)

    def fill_for(self, model: "TrainedModel | None") -> Any:
        """Return `fill` for lists that a model scores.

        If `--missing` is not given and the model takes missing values, return NaN. Return 0 for `--missing zero` if the
        model does not take missing values.
        """
        if model is None:
            return self.fill
        if self.missing == "zero" and not model.takes_missing:
            return 0.0
        return float("nan") if self.missing is None and model.takes_missing else self.fill


def columns_text(data: "Dataset") -> str | None:
    """Return the columns of a table and their purposes as text, for messages; None if the lists are not from a table.

    Args:
        data: training lists.
    """
    from rankgrad.data.tables.errors import some

    if data.roles is None or data.feature_names is None:
        return None
    given = {role.option or role.name: data.roles[role.name] for role in ROLES if role.name in data.roles}
    roles = "".join(f"{role} {name!r}, " for role, name in given.items())
    roles += f"training columns {some([*data.columns], _SHOWN)}, " if data.columns else ""
    names = [data.feature_names[column] for column in sorted(data.categories or ())]
    categorical = f"; categorical: {some(names, _SHOWN)}" if names else ""
    return f"columns: {roles}{len(data.feature_names)} features: {some(data.feature_names, _SHOWN)}{categorical}"


def categories_by_name(model: "TrainedModel | None") -> "dict[str, tuple[str, ...]] | None":
    """Return the categories of a model by feature name, to read data for the model. None if there are no names."""
    if model is None or model.feature_names is None:
        return None
    return {model.feature_names[column]: values for column, values in (model.categories or {}).items()}


def with_categories_of(model: "TrainedModel", data: "Dataset") -> "Dataset":
    """Encode the categorical features of LETOR text in the same way as in the training of a model; return the lists."""
    if not model.categories or data.categories or data.feature_names is not None:
        return data
    from rankgrad.data.categories import encode_features

    return encode_features(data, [*model.categories], model.categories)


def _feature_numbers(columns: Columns | None, width: int) -> list[int]:
    """Return the column positions (from 0) of the feature numbers (from 1) that `--categorical` contains."""
    found = []
    for text in () if columns is None else columns.categorical:
        if not text.isdecimal() or not 1 <= int(text) <= width:
            bad_value("categorical", f"be feature numbers from 1 to {width} for LETOR text", repr(text))
        found.append(int(text) - 1)
    return sorted(set(found))


def choose_split(
    source: DataSource,
    parts: dict[str, "Dataset"],
    split: str | None,
    given: bool,
    usual: tuple[str, ...] = ("test", "validation"),
) -> str:
    """Return the part of `--data` to use: the chosen split, otherwise the first part of `usual` that the data has.

    A single file has no splits. If `--data` names a single file, all its lists are used, as the part `train`.
    Without `--data`, the file is the training file, and this rule does not apply.
    """
    if source.is_single and given and split not in parts:
        return "train"
    if split is not None:
        if split not in parts:
            bad_value("split", f"be a split of {source.data} ({', '.join(parts)})", repr(split))
        return split
    found = next((part for part in usual if part in parts), None)
    if found is None:
        must = name_settings("name lists that the model has not seen, such as {data=held_out.parquet}")
        got, last = f"{source.data}, which has no {' or '.join(usual)} lists", [*parts][-1]
        bad_value("data", must, f"{got} " + name_settings(f"({{split={last}}} uses the {last} lists)"))
    if found != usual[0]:
        why = f"the {found} lists, which selected the model, are used"
        warnings.warn(f"there are no {usual[0]} lists: {why}", stacklevel=2)
    return found


def _columns(record: dict[str, Any]) -> Columns:
    """Return the table columns in the record of a data source. A record of another form is an error."""
    known = {role.name: list if role.several else str for role in ALL}
    for name, value in record.items():
        texts = value if isinstance(value, list) else [value]
        if not isinstance(value, known.get(name, ())) or not all(isinstance(text, str) for text in texts):
            bad_value("columns", "map purposes (label, qid, ...) to column names", {name: value})
    return Columns(**record)


@contextmanager
def telling(doing: str | None = None) -> Iterator[None]:
    """Show a status line on a terminal during a block of a command; then print the warnings, one per line."""
    from rich.markup import escape

    from rankgrad.cli.option_names import as_typed
    from rankgrad.cli.shared_options import detail, options
    from rankgrad.cli.terminal_text import screen

    console = screen(stderr=True, soft_wrap=True, quiet=not is_first())
    caught: list[warnings.WarningMessage] = []
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            shows = doing and console.is_terminal and not options.quiet
            with console.status(escape(doing or "")) if shows else nullcontext():
                yield
        detail(f"{doing or 'done'}: {time.perf_counter() - began:.1f} s")
    finally:
        texts = [as_typed(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        for text in dict.fromkeys(texts):  # blocks of one file may have the same warning
            console.print(f"warning: {text}", style="yellow", markup=False, highlight=False)
