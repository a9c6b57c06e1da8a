"""`rankgrad predict`: computes the scores of all documents of a file, with little memory."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel

FORMATS = ("scores", "trec")
_ROWS = 16_384  # number of documents per block


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    file: Annotated[Path, typer.Argument(help="LETOR file (plain, gzip or xz) or cache.")],
    out: Annotated[str, typer.Option(help="File to write; - is standard output.")] = "-",
    format: Annotated[str, typer.Option(help="scores (one per line) or trec (a TREC run).")] = "scores",
    tag: Annotated[str, typer.Option(help="Name of the TREC run.")] = "rankgrad",
    missing: Annotated[str, typer.Option(help="Number that replaces NaN and infinity, or 'error'.")] = "error",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Score every document of a file, in file order; labels are ignored.

    The file is read once, in blocks of lists; it may also be a cache of `rankgrad convert`. An existing output file is
    replaced only when all scores are written.

    Example: `rankgrad predict runs/a test.txt --out scores.txt`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.json_output import messages
    from rankgrad.errors import bad_value, one_of
    from rankgrad.models.folder import read_config

    def found() -> None:
        if not file.exists():
            bad_value("file", "be LETOR text or a cache", f"{file}: no such file")
        if file.is_dir() and not source.is_cache:
            bad_value("file", "be LETOR text or a cache", f"the folder {file}")

    def fits() -> None:
        if not tag or len(tag.split()) != 1:
            bad_value("tag", "be one word", repr(tag))
        if out != "-" and Path(out).is_dir():
            bad_value("out", "be a file", f"the folder {out}")

    source = DataSource(str(file), missing=missing)
    together(
        lambda: read_config(model),
        found,
        lambda: source.fill,
        lambda: one_of("format", format, FORMATS),
        fits,
        lambda: check_device(device),
    )
    scorer = load_model(model, device)
    with _output(out) as write, telling():
        seen = _score(scorer, source, format, tag, write)
    if out != "-":
        messages().print(f"{seen:,} scores: {out}", markup=False)


def _score(model: "TrainedModel", source: "DataSource", format: str, tag: str, write: Callable[[str], object]) -> int:
    """Write the scores of all lists; return the number of documents."""
    row = 0
    with _lists(model, source, format == "trec") as parts:
        for part in parts:
            scores = model.score(part.features, part.offsets)
            write(_run(part, scores, row, tag) if format == "trec" else _column(scores))
            row += len(scores)
    return row


def _column(scores: Any) -> str:
    return "%.9g\n" * len(scores) % tuple(scores.tolist())  # nine digits distinguish any two float32 values


def _run(part: "Dataset", scores: Any, row: int, tag: str) -> str:
    """Return the lines of a TREC run. A document without an id gets its row number in the file (from 1) as id."""
    import numpy as np

    lines = []
    for qid, start, stop in zip(part.qids, part.offsets[:-1], part.offsets[1:], strict=True):
        for rank, place in enumerate(np.argsort(-scores[start:stop], kind="stable") + start, 1):
            words = [] if part.docids is None else str(part.docids[place]).split()
            name = "_".join(words) or f"document-{row + place + 1}"
            lines.append(f"{qid} Q0 {name} {rank} {scores[place]:.9g} {tag}\n")
    return "".join(lines)


@contextmanager
def _lists(model: "TrainedModel", source: "DataSource", docids: bool) -> Iterator[Iterable["Dataset"]]:
    """Yield the lists to score, in blocks; show a progress bar on a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from rankgrad.cli.shared_options import options
    from rankgrad.cli.terminal_text import screen
    from rankgrad.data.letor.chunks import stream_letor

    silent = options.quiet or not sys.stderr.isatty()
    columns = (TextColumn("scoring"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True, disable=silent) as bar:
        if source.is_cache:
            yield bar.track(*_cached(source.data, model.features))
            return
        task = bar.add_task("", total=Path(source.data).stat().st_size)
        fill: Any = "error" if source.fill is None else source.fill
        progress = partial(_show, bar, task)
        yield stream_letor(source.data, model.features, missing=fill, docids=docids, documents=_ROWS, progress=progress)


def _show(bar: Any, task: Any, read: int) -> None:
    bar.update(task, completed=read)


def _cached(folder: str, features: int) -> tuple[Iterator["Dataset"], int]:
    """Return the lists of a cache, in blocks, and the number of blocks."""
    import numpy as np

    from rankgrad.data import Dataset, open_cache
    from rankgrad.training.model import chunks

    data = open_cache(folder)
    offsets, width = data.offsets, data.features.shape[1]
    parts = [*chunks(offsets, _ROWS)]
    if width < features:
        needs = f"the model needs {features}; the missing features are set to 0"
        warnings.warn(f"{folder} has {width} features, but {needs}", stacklevel=2)

    def read() -> Iterator[Dataset]:
        for first, last in parts:
            rows = slice(offsets[first], offsets[last])
            wide = np.pad(data.features[rows], ((0, 0), (0, max(0, features - width))))
            docids = None if data.docids is None else data.docids[rows]
            begins = offsets[first : last + 1] - offsets[first]
            yield Dataset(wide, data.labels[rows], begins, data.qids[first:last], docids)

    return read(), len(parts)


@contextmanager
def _output(out: str) -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text to standard output, or to a file that replaces `out` when it is complete."""
    if out == "-":
        yield sys.stdout.write
        sys.stdout.flush()
        return
    from rankgrad.atomic_files import clear_leftovers, naming, writing

    path = Path(out)
    clear_leftovers(path.parent, path.name)
    with writing(path) as file:

        def write(text: str) -> None:
            with naming(path):
                file.write(text.encode())

        yield write
