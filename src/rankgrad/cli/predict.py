"""`rankgrad predict`: computes the scores of all documents of a file, with little memory."""

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.missing_option import Missing
from rankgrad.cli.option_groups import Device, SavedModel
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.errors import Problems, bad_value, one_of

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel

_ROWS = 16_384  # number of documents per block


@with_table_options
def predict(
    table: TableOptions,
    model: SavedModel,
    file: Annotated[Path, typer.Argument(help="LETOR file, table, cache or text:path=...; - is standard input.")],
    out: Annotated[str, typer.Option(help="File to write; - is standard output.")] = "-",
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of --out: scores (one per line), csv, parquet or trec (default: by the ending).",
            show_default=False,
        ),
    ] = None,
    input: Annotated[
        str | None,
        typer.Option(
            help="Input format: letor, csv, tsv, jsonl, parquet or arrow (default: by the ending; letor for -).",
            show_default=False,
        ),
    ] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Also write calibrated values (see `rankgrad calibrate`).")
    ] = False,
    top: Annotated[
        int | None, typer.Option(help="Write this number of best documents per query.", show_default=False)
    ] = None,
    tag: Annotated[str, typer.Option(help="Name of the TREC run.")] = "rankgrad",
    missing: Missing = None,
    device: Device = "auto",
) -> None:
    """Score every document of a file, in the order of the rows; labels are ignored.

    The file is read once, in blocks of lists. With `--regroup`, the complete file is read first. CSV and Parquet files
    contain the ids of queries and documents, in columns with the names of the input. With `--calibrated`, they have one
    more column, and the format `scores` contains only the calibrated values. An existing file is replaced at the end.

    Example: `rankgrad predict runs/a test.parquet --out scores.csv`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import DataSource, telling, with_categories_of
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.score_files import FORMATS, format_of_scores, writing_scores
    from rankgrad.data.loading import is_text
    from rankgrad.data.tables.files import FORMATS as INPUTS
    from rankgrad.models.calibration import calibration_of
    from rankgrad.models.registry import saved_kind

    def found() -> None:
        if str(file) == "-":
            return
        if source.fold is not None:
            source.check()
        elif not file.exists():
            bad_value("file", "be LETOR text, a table or a cache", f"{file}: no such file")
        if file.is_dir() and not (source.is_cache or source.is_table):
            bad_value("file", "be LETOR text, a table or a cache", f"the folder {file}")

    def fits() -> None:
        if not tag or len(tag.split()) != 1:
            bad_value("tag", "be one word", repr(tag))
        if out != "-" and Path(out).is_dir():
            bad_value("out", "be a file", f"the folder {out}")
        if out != "-" and file.exists() and Path(out).exists() and file.samefile(out):
            bad_value("out", "be another file than the input", out)
        if input is not None:
            one_of("input", input, ("letor", *INPUTS))
        if out == "-" and format == "parquet":
            bad_value("out", "be a file for the format parquet", "'-', which is standard output")
        if top is not None and top < 1:
            bad_value("top", "be at least 1", top)
        if top is not None and kind == "scores":
            bad_value("top", "be used with the format csv, parquet or trec, which contain ids", "scores")
        if calibrated and kind == "trec":
            bad_value("calibrated", "be used with the format scores, csv or parquet", "trec")

    kind = "scores"

    def known() -> None:
        nonlocal kind
        kind = format_of_scores(out) if format is None else format
        one_of("format", kind, FORMATS)

    columns = table.columns()
    fold = 1 if is_text(str(file)) else None  # all lists of a text data set are scored, so any fold is right
    source = DataSource(str(file), fold, missing=missing, columns=columns, regroup=table.regroup, format=input)
    together(
        lambda: saved_kind(model),
        found,
        lambda: source.fill,
        known,
        fits,
        lambda: check_device(device),
    )
    scorer = load_model(model, device)
    calibration = calibration_of(scorer) if calibrated else None
    with _from_standard_input(source) as source, telling():
        source = source.with_options_of(model)
        source.check()
        ids = {} if kind in ("scores", "trec") else source.id_columns(scorer)
        with writing_scores(kind, out, tag, ids, top) as writer:
            for part in _lists(scorer, source, kind != "scores"):
                scores = scorer.score_lists(with_categories_of(scorer, part))
                more = {} if calibration is None else {calibration.meaning: calibration.values(scores)}
                writer.write(part, scores, more)
    if out != "-":
        messages().print(f"{writer.written:,} scores: {out}", markup=False)


@contextmanager
def _from_standard_input(source: "DataSource") -> Iterator["DataSource"]:
    """Yield the data source to score. Standard input is copied to a temporary file, which all readers can read."""
    if source.data != "-":
        yield source
        return
    import shutil
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="rankgrad-") as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            yield replace(source, data=str(path), format=source.format or "letor")
        except Problems as error:
            raise error.changed(lambda problem: problem.elsewhere(str(path), "standard input")) from error


def _lists(model: "TrainedModel", source: "DataSource", docids: bool) -> Iterator["Dataset"]:
    """Yield the lists to score, in blocks, and show a progress bar on a terminal.

    If the rows were reordered to group them by query, there is only one block, which contains all lists.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from rankgrad.cli.shared_options import options
    from rankgrad.cli.terminal_text import screen

    silent = options.quiet or not sys.stderr.isatty()
    columns = (TextColumn("scoring"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True, disable=silent) as bar:
        if source.is_cache or source.regroup or source.fold is not None:
            yield from bar.track(*_whole(model, source))
        else:
            task = bar.add_task("", total=None if source.is_table else Path(source.data).stat().st_size)
            yield from _streamed(model, source, docids, partial(_show, bar, task))


def _show(bar: Any, task: Any, read: int) -> None:
    bar.update(task, completed=read)


def _streamed(model: "TrainedModel", source: "DataSource", docids: bool, progress: Any) -> Iterable["Dataset"]:
    """Return the lists to score in blocks, from a file that is read once, with little memory."""
    from rankgrad.cli.data_source import categories_by_name
    from rankgrad.data.letor.chunks import stream_letor
    from rankgrad.data.tables.reader import stream_table
    from rankgrad.roles import ANY

    fill = source.fill_for(model)
    options: dict[str, Any] = {"missing": "error" if fill is None else fill, "documents": _ROWS}
    if not source.is_table:
        options["sparse"] = source.sparse
        return stream_letor(source.data, model.features, docids=docids, progress=progress, **options)
    options |= {"features": model.features, "model": model.feature_names, "format": source.format}
    options["categories"] = categories_by_name(model)
    return stream_table(source.data, source.columns or ANY, progress=progress, **options)


def _whole(model: "TrainedModel", source: "DataSource") -> tuple[Iterator["Dataset"], int]:
    """Return the lists to score in blocks, and the number of blocks, for a cache, text data set or regrouped file."""
    from rankgrad.data.loading import text_source
    from rankgrad.training.model import list_ranges

    texts = text_source(source.data)
    data = source.read(model, labelled=False)["train"] if texts is None else texts.lists()
    named = data.feature_names is not None and model.feature_names is not None
    if not named and data.features.shape[1] < model.features:
        needs = f"the model needs {model.features}; the missing features are set to 0"
        warnings.warn(f"{source.data} has {data.features.shape[1]} features, but {needs}", stacklevel=2)
    ranges = [(0, len(data))] if data.rows is not None else [*list_ranges(data.offsets, _ROWS)]
    return (_block(data, first, last, model, named) for first, last in ranges), len(ranges)


def _block(data: "Dataset", first: int, last: int, model: "TrainedModel", named: bool) -> "Dataset":
    """Return a block of lists to score, with the features of the model; missing features of LETOR text are 0."""
    from dataclasses import replace

    from rankgrad.data.sparse_rows import widen

    part = data.between(first, last) if last - first < len(data) else data
    if named:
        return part.select_features(model.feature_names)
    features = widen(part.features, max(model.features, part.features.shape[1]))
    return replace(part, features=features, feature_names=None)
