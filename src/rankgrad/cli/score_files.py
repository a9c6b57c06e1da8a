"""Write scores as text, CSV, Parquet or a TREC run, in the order of the rows of the input."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rankgrad.data import Dataset

NOTHING: Mapping[str, Any] = {}
FORMATS = ("scores", "csv", "parquet", "trec")
_OTHER_FORMATS = (".gz", ".xz", ".bz2", ".zst", ".tsv", ".json", ".jsonl", ".arrow", ".feather", ".xlsx")


def format_of_scores(out: str) -> str:
    """Return the format of an output file by the ending of its name. The ending of another format is an error."""
    endings = {".csv": "csv", ".parquet": "parquet", ".trec": "trec", ".run": "trec"}
    ending = Path(out).suffix.lower()
    if ending in _OTHER_FORMATS:
        bad_value("out", f"end with {', '.join(endings)} or .txt (or use --format)", repr(Path(out).name))
    return endings.get(ending, "scores")


class ScoreWriter:
    """Writes the scores of blocks of lists. `rows` is the number of scored documents, `written` that of written scores.

    Args:
        write: function that writes bytes.
        tag: name of a TREC run.
        ids: names of the columns of ids in the input, by role; see `rankgrad.roles`.
        top: number of best documents of each query to write, best first; None to write all, in the order of the input.
    """

    def __init__(
        self, write: Callable[[bytes], object], tag: str, ids: Mapping[str, str], top: int | None = None
    ) -> None:
        self._write, self._tag, self._ids, self._top = write, tag, ids, top
        self.rows = self.written = 0

    def write(self, part: "Dataset", scores: Any, more: Mapping[str, Any] = NOTHING) -> None:
        """Write the scores of some lists to the score file, one score per document.

        Args:
            part: lists.
            scores: score of each document.
            more: values of further columns, by name.
        """
        lines = self._lines(part, scores, more)
        self._write(lines.encode())
        self._count(len(scores), part)

    def _count(self, rows: int, part: "Dataset") -> None:
        self.rows += rows
        self.written += rows if self._top is None else int(part.lengths.clip(max=self._top).sum())

    def _columns(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
        """Return the names and the values of the columns of a score file.

        With `top`, there is a column `rank`, and for documents without ids their row number, from 1.
        """
        import numpy as np

        found = {"score": scores, **more}
        own = {"qid": part.row_qids}
        own |= {} if part.list_ids is None else {"list_id": np.repeat(part.list_ids, part.lengths)}
        own |= {} if part.docids is None else {"docid": part.docids}
        ids = [*own.values()]
        if self._top is not None:
            places, found["rank"] = _best(part, scores, self._top)
            if part.docids is None:
                rows = np.arange(len(scores)) if part.rows is None else part.rows
                found = {"row": self.rows + rows + 1, **found}
        names: list[str] = []
        for role in own:
            name = self._ids.get(role, role)
            names.append(role if name in found or name in names else name)
        if self._top is None:
            columns = [part.in_row_order(values) for values in (*ids, *found.values())]
        else:
            columns = [values if name == "rank" else values[places] for name, values in found.items()]
            columns = [*(values[places] for values in ids), *columns]
        return [*names, *found], columns

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        """Return the lines of a scores file: the values of the last further column, or the scores if there is none."""
        ordered = part.in_row_order([scores, *more.values()][-1])
        return "%.9g\n" * len(ordered) % tuple(ordered.tolist())  # nine digits distinguish any two float32 values


class CsvScores(ScoreWriter):
    """Writes scores as CSV: the ids of queries and documents (if they have ids), `score` and the further columns."""

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        text = io.StringIO()
        names, columns = self._columns(part, scores, more)
        ids = [*part.qids.tolist(), *([] if part.docids is None else part.docids.tolist())]
        ids += [] if part.list_ids is None else part.list_ids.tolist()
        # By default, Python puts no quotes around a carriage return, which ends a row for other programs.
        carriage = any("\r" in each for each in ids if isinstance(each, str))
        rows = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if carriage else csv.QUOTE_MINIMAL)
        if not self.rows:
            rows.writerow(names)
        for place, name in enumerate(names):
            if name == "score" or name in more:
                columns[place] = [f"{value:.9g}" for value in columns[place].tolist()]
        rows.writerows(zip(*columns, strict=True))
        return text.getvalue()


class TrecScores(ScoreWriter):
    """Writes scores as a TREC run. The id of a document without an id is `document-` and its row number, from 1."""

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        if part.list_ids is not None:
            must = "have one list per query in a TREC run, which has no list ids (or use --format csv)"
            bad_value("the data", must, "list ids")
        lines = []
        documents = [] if part.docids is None else [docid for docid in part.docids.tolist() if docid]
        for kind, ids in (("query", part.qids.tolist()), ("document", documents)):
            if spaced := [each for each in ids if isinstance(each, str) and each.split() != [each]]:
                bad_value(f"{kind} ids", "have no spaces in a TREC run (or use --format csv)", repr(spaced[0]))
        qids = part.row_qids
        for place, rank in zip(*_best(part, scores, self._top), strict=True):
            row = place if part.rows is None else part.rows[place]
            name = ("" if part.docids is None else part.docids[place]) or f"document-{self.rows + row + 1}"
            lines.append(f"{qids[place]} Q0 {name} {rank} {scores[place]:.9g} {self._tag}\n")
        return "".join(lines)


class ParquetScores(ScoreWriter):
    """Writes scores as a Parquet file, with the columns of `CsvScores`."""

    def __init__(self, file: Any, stack: ExitStack, ids: Mapping[str, str], top: int | None = None) -> None:
        super().__init__(file.write, "", ids, top)
        self._file, self._stack, self._writer = file, stack, None

    def write(self, part: "Dataset", scores: Any, more: Mapping[str, Any] = NOTHING) -> None:
        """Write the scores of some lists to the Parquet file. The first lists determine the type of the query ids."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        names, columns = self._columns(part, scores, more)
        writer: Any = self._writer
        if writer is not None and writer.schema.field(0).type == pa.string():
            columns[0] = columns[0].astype(str)
        # pyarrow cuts a text of NumPy at its first NUL character, but not a text of Python.
        columns = [column.tolist() if column.dtype.kind == "U" else column for column in columns]
        made = pa.table(dict(zip(names, map(pa.array, columns), strict=True)))
        if writer is None:
            writer = self._writer = self._stack.enter_context(parquet.ParquetWriter(self._file, made.schema))
        if made.schema != writer.schema:
            must = "be all integers or all text for --format parquet (or use --format csv)"
            bad_value("query ids", must, "integers first, then text")
        writer.write_table(made)
        self._count(len(scores), part)


@contextmanager
def writing_scores(
    format: str, out: str, tag: str, ids: Mapping[str, str], top: int | None = None
) -> Iterator[ScoreWriter]:
    """Yield a writer of scores to standard output, or to a temporary file that replaces `out` after the last score."""
    kinds = {"scores": ScoreWriter, "csv": CsvScores, "trec": TrecScores}
    if out == "-":
        yield kinds[format](lambda text: sys.stdout.write(text.decode()), tag, ids, top)
        sys.stdout.flush()
        return
    from rankgrad.atomic_files import clear_leftovers, naming, writing_output

    path = Path(out)
    clear_leftovers(path.parent, path.name)
    with writing_output(path) as file, ExitStack() as stack:
        if format == "parquet":
            yield ParquetScores(file, stack, ids, top)
            return

        def write(text: bytes) -> None:
            with naming(path):
                file.write(text)

        yield kinds[format](write, tag, ids, top)


def _best(part: "Dataset", scores: Any, top: int | None) -> tuple[Any, Any]:
    """Return the places of the best documents of each list, best first, and their ranks in the list, from 1."""
    import numpy as np

    lists = zip(part.offsets[:-1], part.offsets[1:], strict=True)
    places = [np.argsort(-scores[start:stop], kind="stable")[:top] + start for start, stop in lists]
    ranks = [np.arange(1, len(each) + 1) for each in places]
    return np.concatenate([[], *places]).astype(np.int64), np.concatenate([[], *ranks]).astype(np.int64)
