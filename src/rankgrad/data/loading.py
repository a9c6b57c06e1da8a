"""Load the splits of a benchmark set (by name), a custom set (by folder), a synthetic data set or a text data set."""

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rankgrad.data.benchmarks import BENCHMARKS, BenchmarkFacts
from rankgrad.data.benchmarks import verify as verify_facts
from rankgrad.data.dataset import Splits
from rankgrad.data.folder_layouts import SplitFiles, find_files, folders, has_folds
from rankgrad.data.split_reader import SplitReader, TableForm
from rankgrad.data.splitting import hold_out
from rankgrad.data.tables.files import format_of
from rankgrad.errors import MissingFile, Problem, Problems, bad_value, mistyped, name_settings, one_of
from rankgrad.option_checks import fit_options
from rankgrad.roles import Columns
from rankgrad.spec import no_cutoff, show, spell

GENERATED = ("synthetic", "web30k-shape")
TEXT = "text"
_TEXT_READER = "rankgrad.text.data_spec:read_source"  # imported when a text data set is named
_LONGEST_PATH = 4096


def datasets() -> tuple[BenchmarkFacts, ...]:
    """Return the published facts about each data set that `load` finds by name.

    Example:
        >>> [facts.name for facts in datasets()][:3]
        ['MQ2007', 'MQ2008', 'OHSUMED']
    """
    return (
        *BENCHMARKS,
        BenchmarkFacts("synthetic", note="generated, similar to web search, best achievable order known"),
        BenchmarkFacts(
            "web30k-shape", features=136, grades=5, train=18_919, test=6_306, note="generated, as large as WEB30K"
        ),
        BenchmarkFacts(TEXT, folds=5, note="collection of texts, in the form text:path=FOLDER"),
    )


def load(
    name: str | os.PathLike[str],
    *,
    fold: int | None = None,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    missing: float | Literal["error", "nan"] | None = None,
    holdout: float | None = None,
    seed: int = 0,
    columns: Columns | None = None,
    regroup: bool = False,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[str, tuple[str, ...]] | None = None,
    sparse: bool = False,
    verify: bool = False,
) -> Splits:
    """Load the splits of a data set; warn if a benchmark set differs from its published facts.

    Args:
        name: name of a set in `datasets()`, in upper or lower case; or a spec of a generated set, such as
            `synthetic:lists=200,seed=1`; or the path of a folder. The folder contains `train.txt`, and may contain
            `vali.txt` (or `valid`, `val`, `validation`, `dev`) and `test.txt`; an absent part is None in the result.
            The files may also be tables: `train.csv`, `train.parquet`, ..., or caches: `train`, `vali`, `test`. A text
            data set is `text:path=FOLDER,depth=100`; its options are the fields of
            `rankgrad.text.data_spec.TextSource`.
        fold: number of the fold, 1 to 5, for sets with folds.
        root: folder that contains the benchmark sets; with None, the folder in the environment variable
            `RANKGRAD_DATA`, or the current folder if this variable is not set.
        cache: folder for caches of the files; later calls map these caches into memory, which is fast.
        missing: number that replaces missing values, `"nan"` or `"error"`, as in `read_letor`. None means 0 for
            Istella, which marks missing values by 1.797e308, and `"error"` for all other sets.
        holdout: share of the training lists that becomes the validation part, if the files have no such part. None
            means 0.2 for Istella and 0 for all other sets. If lists are held out, the lists of both parts are copied.
        seed: random seed of the choice of held-out lists.
        columns: columns of tables; None for columns with usual names, see `Columns`.
        regroup: True to accept the rows of a query in any order.
        feature_names: names of the columns that are features, for tables; None for the columns of the training table.
        categories: categories of the categorical columns, by column name, for tables; None for the categories of the
            training table.
        sparse: True for features as SciPy matrices in the CSR format, for LETOR text with very many features.
        verify: True to check the caches by hashes of complete files, as in `open_cache`.

    Example:
        >>> load("synthetic:lists=30,features=12").train
        Dataset('synthetic train', lists=30, documents=..., features=12)
    """
    if (generate := _generator(name)) is not None:
        return generate()
    if (source := text_source(name)) is not None:
        return source.splits(fold, root)
    facts = _known(name)
    if facts is None:
        form = TableForm(columns or Columns(), feature_names, categories)
        found = _load_folder(Path(name), fold, cache, missing, regroup, form, sparse, verify)
        return hold_out(found, holdout or 0.0, seed)
    title = facts.name if fold is None else f"{facts.name} fold {fold}"
    files = _locate(facts, fold, root)
    fill = facts.missing if missing is None else missing
    with warnings.catch_warnings():
        if facts.missing != "error":  # the set marks missing values by a number that is too large for float32
            warnings.filterwarnings("ignore", ".*infinite values, which are counted as missing", UserWarning)
        reader = SplitReader(files, title, cache, fill, regroup, sparse, verify)
        splits = reader.letor(facts.features if facts.sparse else None)
    verify_facts(facts, splits, fold=fold)
    return hold_out(splits, facts.holdout if holdout is None else holdout, seed)


def check_source(
    name: str | os.PathLike[str],
    *,
    fold: int | None = None,
    root: str | os.PathLike[str] | None = None,
    needs_test: bool = False,
) -> None:
    """Check that `load` finds the files of a set or can generate the set; nothing is read or generated.

    With `needs_test`, a folder without a test file is an error.
    """
    if _generator(name) is not None:
        return
    if (source := text_source(name)) is not None:
        source.check(fold, root)
        return
    facts = _known(name)
    if facts is None:
        _folder_files(Path(name), fold, needs_test)
    else:
        _locate(facts, fold, root)


def is_benchmark(name: str) -> bool:
    """Return True for the name of a benchmark set, in upper or lower case."""
    return any(_key(name) in {_key(known) for known in (facts.name, *facts.aliases)} for facts in BENCHMARKS)


def is_generated(name: str) -> bool:
    """Return True for the spec of a generated set; an existing folder is not a spec."""
    return _key(_kind(name)) in map(_key, GENERATED) and not os.path.isdir(name)


def is_text(name: str) -> bool:
    """Return True for the spec of a text data set; an existing folder is not a spec."""
    return _kind(name) == TEXT and not os.path.isdir(name)


def text_source(name: str | os.PathLike[str]) -> Any:
    """Return the `rankgrad.text.data_spec.TextSource` of a spec; None for any name that is not a text data set."""
    if not isinstance(name, str) or not is_text(name):
        return None
    module, _, reader = _TEXT_READER.partition(":")
    return getattr(import_module(module), reader)(name)


def data_label(name: str) -> str:
    """Return the name of a data set for tables of results. For a text data set, it is the option `name` or the folder.

    Example:
        >>> data_label("text:path=collections/Robust04,depth=150"), data_label("MQ2008")
        ('Robust04', 'MQ2008')
    """
    if _kind(name) != TEXT:
        return name
    try:
        options = spell("name", name).options
    except ValueError:
        return name
    return str(options.get("name") or Path(str(options.get("path", ""))).name or name)


def _kind(name: str) -> str:
    return re.split("[:(]", name, maxsplit=1)[0].strip().lower()


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _known(name: str | os.PathLike[str]) -> BenchmarkFacts | None:
    """Return the facts about the benchmark set with this name, or None for a folder; any other name is an error."""
    if isinstance(name, str):
        for facts in BENCHMARKS:
            if _key(name) in {_key(known) for known in (facts.name, *facts.aliases)}:
                return facts
    if os.path.isdir(name):  # unlike Path.is_dir, this function accepts every text
        return None
    must = "be a known data set or a folder with a train file"
    names = [known for facts in datasets() for known in (facts.name, *facts.aliases)]
    bad_value(
        "name", must, *mistyped(str(name)[:200], names, f"known: {', '.join(facts.name for facts in datasets())}")
    )


def _generator(name: str | os.PathLike[str]) -> Callable[[], Splits] | None:
    """Check the options of a generated set, and return a function that generates it; None for any other name."""
    if len(str(name)) > _LONGEST_PATH:
        bad_value("name", f"be at most {_LONGEST_PATH:,} characters long", f"{len(str(name)):,}: {show(str(name))}")
    if not is_generated(str(name)):
        return None
    kind = _kind(str(name))
    from rankgrad.data.synthetic import OPTIONS, check_synthetic, synthetic, web30k_options, web30k_shape

    options = no_cutoff("name", spell("name", str(name).rstrip(": ")), str(name)).options
    shaped = _key(kind) == _key("web30k-shape")
    make: Callable[..., Splits] = web30k_shape if shaped else synthetic
    for option in options:
        one_of(f"option of {kind}", option, ("scale", "seed") if shaped else OPTIONS)
    options = fit_options(kind, options, make)
    try:
        check_synthetic(**(web30k_options(**options) if shaped else options))
    except Problems as error:  # it names an argument of `synthetic`, which may also be an option of a command
        raise error.changed(lambda problem: replace(problem, argument=f"{problem.argument} of {kind}")) from None
    return partial(make, **options)


def _locate(facts: BenchmarkFacts, fold: int | None, root: str | os.PathLike[str] | None) -> SplitFiles:
    if facts.folds and fold not in range(1, facts.folds + 1):
        bad_value("fold", f"be 1 to {facts.folds} for {facts.name}", fold)
    if not facts.folds and fold is not None:
        bad_value("fold", f"be None for {facts.name}, which has no folds", fold)
    top = Path(root if root is not None else os.environ.get("RANKGRAD_DATA", "."))
    keys = {_key(name) for name in (facts.name, *facts.aliases)}
    named = [place for place in folders(top, 2) if _key(place.name) in keys]
    for place, depth in [*((place, 3) for place in named), (top, 0)]:
        found = find_files(place, fold=fold, depth=depth, needs_test=True)
        if found is not None:
            return found
    wanted = f"{facts.name}/train.txt, test.txt"
    if facts.folds:
        wanted = f"{facts.name}/Fold{fold}/train.txt, vali.txt, test.txt or {facts.name}/S1.txt to S5.txt"
    if facts.name.startswith("Yahoo"):
        wanted = f"{facts.name}/set1.train.txt, set1.valid.txt, set1.test.txt"
    searched = ", ".join(str(place) for place in [*named, top])
    put = f"put the files there, or give the folder that contains {facts.name}/ as {{root=}} or RANKGRAD_DATA"
    must = f"contain {facts.name} as {wanted} (plain, .gz or .xz; " + name_settings(f"{put})")
    raise MissingFile(Problem("root", must, f"no such files in {searched}"))


def _folder_files(folder: Path, fold: int | None, needs_test: bool = False) -> SplitFiles:
    if fold is None and has_folds(folder):
        bad_value("fold", f"be given for {folder}, which contains folds", None)
    files = find_files(folder, fold=fold, needs_test=needs_test)
    if files is None:
        wanted, optional = ("train.txt and test.txt", "is") if needs_test else ("train.txt", "and test.txt are")
        inside = f"Fold{fold}/{wanted}, or S1.txt to S5.txt" if fold else wanted
        must = f"contain {inside} (plain, .gz or .xz, or a table such as train.csv; vali.txt {optional} optional)"
        raise MissingFile(Problem(str(folder), must, "a folder without these files"))
    return files


def _load_folder(
    folder: Path,
    fold: int | None,
    cache: Any,
    missing: float | Literal["error", "nan"] | None,
    regroup: bool,
    form: TableForm,
    sparse: bool,
    verify: bool,
) -> Splits:
    files, name = _folder_files(folder, fold), folder.resolve().name
    title, fill = f"{name} fold {fold}" if fold else name, "error" if missing is None else missing
    reader = SplitReader(files, title, cache, fill, regroup, sparse, verify)
    paths = [path for each in reader.paths.values() for path in each]
    tables = [format_of(path) is not None for path in paths]
    if not any(tables):
        if replace(form.columns, categorical=()):
            bad_value("columns", f"be empty, because {folder} contains no table", form.columns)
        if not any(path.is_dir() for path in paths):
            return reader.letor()
        if all(path.is_dir() for path in paths):
            return reader.caches()
    if not all(tables):
        must = "contain tables only, or LETOR text only"
        bad_value(str(folder), must, " and ".join(path.name for path in paths))
    return reader.tables(form)
