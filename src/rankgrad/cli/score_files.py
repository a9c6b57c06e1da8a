"""Write scores as text, CSV, Parquet or a TREC run, in the order of the rows of the input."""

import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankgrad.data import Dataset

NOTHING: Mapping[str, Any] = {}
FORMATS = ("scores", "csv", "parquet", "trec")
_OTHER_FORMATS = (".gz", ".xz", ".bz2", ".zst", ".tsv", ".json", ".jsonl", ".arrow", ".feather", ".xlsx")


def format_of_scores(out: str) -> str:
    """Return the format of an output file by the ending of its name. The ending of another format is an error."""
    from rankgrad.errors import bad_value

    endings = {".csv": "csv", ".parquet": "parquet", ".trec": "trec", ".run": "trec"}
    ending = Path(out).suffix.lower()
    if ending in _OTHER_FORMATS:
        bad_value("out", f"end with {', '.join(endings)} or .txt (or use --format)", repr(Path(out).name))
    return endings.get(ending, "scores")


class ScoreWriter:
    """Writes the scores of blocks of lists. `rows` is the number of written scores."""

    def __init__(self, write: Callable[[bytes], object], tag: str) -> None:
        self._write, self._tag, self.rows = write, tag, 0

    def write(self, part: "Dataset", scores: Any, more: Mapping[str, Any] = NOTHING) -> None:
        """Write the scores of some lists to the score file, one score per document.

        Args:
            part: lists.
            scores: score of each document.
            more: values of further columns, by name.
        """
        self._write(self._lines(part, scores, more).encode())
        self.rows += len(scores)

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        """Return the lines of a scores file: the values of the last further column, or the scores if there is none."""
        ordered = part.in_row_order([scores, *more.values()][-1])
        return "%.9g\n" * len(ordered) % tuple(ordered.tolist())  # nine digits distinguish any two float32 values


class CsvScores(ScoreWriter):
    """Writes scores as CSV: the columns `qid`, `docid` (if the documents have ids), `score` and the further columns."""

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        names, columns = _columns(part, scores, more)
        if not self.rows:
            rows.writerow(names)
        for place in range(names.index("score"), len(names)):
            columns[place] = [f"{value:.9g}" for value in columns[place].tolist()]
        rows.writerows(zip(*columns, strict=True))
        return text.getvalue()


class TrecScores(ScoreWriter):
    """Writes scores as a TREC run. The id of a document without an id is `document-` and its row number, from 1."""

    def _lines(self, part: "Dataset", scores: Any, more: Mapping[str, Any]) -> str:
        import numpy as np

        from rankgrad.errors import bad_value

        lines = []
        if part.qids.dtype.kind == "U" and (spaced := [qid for qid in part.qids.tolist() if len(qid.split()) != 1]):
            bad_value("query ids", "have no spaces in a TREC run (or use --format csv)", repr(spaced[0]))
        for qid, start, stop in zip(part.qids, part.offsets[:-1], part.offsets[1:], strict=True):
            for rank, place in enumerate(np.argsort(-scores[start:stop], kind="stable") + start, 1):
                words = [] if part.docids is None else str(part.docids[place]).split()
                row = place if part.rows is None else part.rows[place]
                name = "_".join(words) or f"document-{self.rows + row + 1}"
                lines.append(f"{qid} Q0 {name} {rank} {scores[place]:.9g} {self._tag}\n")
        return "".join(lines)


class ParquetScores(ScoreWriter):
    """Writes scores as a Parquet file, with the columns of `CsvScores`."""

    def __init__(self, file: Any, stack: ExitStack) -> None:
        super().__init__(file.write, "")
        self._file, self._stack, self._writer = file, stack, None

    def write(self, part: "Dataset", scores: Any, more: Mapping[str, Any] = NOTHING) -> None:
        """Write the scores of some lists to the Parquet file. The first lists determine the type of the query ids."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        from rankgrad.errors import bad_value

        names, columns = _columns(part, scores, more)
        writer: Any = self._writer
        if writer is not None and writer.schema.field("qid").type == pa.string():
            columns[0] = columns[0].astype(str)
        made = pa.table(dict(zip(names, map(pa.array, columns), strict=True)))
        if writer is None:
            writer = self._writer = self._stack.enter_context(parquet.ParquetWriter(self._file, made.schema))
        if made.schema != writer.schema:
            must = "be all integers or all text for --format parquet (or use --format csv)"
            bad_value("query ids", must, "integers first, then text")
        writer.write_table(made)
        self.rows += len(scores)


@contextmanager
def writing_scores(format: str, out: str, tag: str) -> Iterator[ScoreWriter]:
    """Yield a writer of scores to standard output, or to a temporary file that replaces `out` after the last score."""
    kinds = {"scores": ScoreWriter, "csv": CsvScores, "trec": TrecScores}
    if out == "-":
        yield kinds[format](lambda text: sys.stdout.write(text.decode()), tag)
        sys.stdout.flush()
        return
    from rankgrad.atomic_files import clear_leftovers, naming, writing_output

    path = Path(out)
    clear_leftovers(path.parent, path.name)
    with writing_output(path) as file, ExitStack() as stack:
        if format == "parquet":
            yield ParquetScores(file, stack)
            return

        def write(text: bytes) -> None:
            with naming(path):
                file.write(text)

        yield kinds[format](write, tag)


def _columns(part: "Dataset", scores: Any, more: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the names and the values of the columns of a score file, in the order of the rows of the input."""
    ids = {} if part.docids is None else {"docid": part.docids}
    found = {"qid": part.row_qids, **ids, "score": scores, **more}
    return list(found), [part.in_row_order(values) for values in found.values()]
