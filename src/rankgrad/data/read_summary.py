"""The summary of a reader: counts of lines and documents, which `print` shows as text."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ReadSummary:
    """Counts of lines and documents in the files that a reader read; `print` shows these counts as text.

    Example:
        >>> print(ReadSummary(("a.txt",), 2_000_000, 7, 5, 2, 46, 1, 1, missing=3, seconds=0.5))
        5 documents in 2 lists, 46 features, from a.txt
        7 lines: 5 documents, 1 blank, 1 comment
        3 missing values
        2.0 MB in 0.50 s (4 MB/s)
    """

    files: tuple[str, ...]  # paths of the files, in the order of reading
    bytes: int  # number of bytes of the decompressed text, or of the files of a table
    lines: int  # number of lines, also blank lines and comments; 0 for a table
    documents: int  # number of documents
    lists: int  # number of lists, one per query
    features: int  # number of features per document
    blank_lines: int  # number of lines without text
    comment_lines: int  # number of lines that begin with #
    missing: int = 0  # number of missing values: empty, NaN or infinite; `missing` says what the reader does with them
    regrouped: int = 0  # number of runs of documents that were moved, to join the documents of each query
    replaced_docids: int = 0  # number of document ids with bytes that are not UTF-8, which are replaced by U+FFFD
    seconds: float = 0.0  # duration of reading
    cached: bool = False  # True if the arrays are mapped from a cache; the counts are from the first reading
    widest: int | None = None  # largest feature id in LETOR text; None for a table and for an older cache

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        source = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files, {self.files[0]} first"
        rows = [
            f"{_count(self.documents, 'document')} in {_count(self.lists, 'list')}, "
            f"{_count(self.features, 'feature')}, from {source}",
        ]
        if self.lines:
            rows.append(
                f"{_count(self.lines, 'line')}: {_count(self.documents, 'document')}, {self.blank_lines:,} blank, "
                f"{_count(self.comment_lines, 'comment')}"
            )
        if self.missing:
            rows.append(f"{_count(self.missing, 'missing value')}")
        if self.regrouped:
            rows.append(f"{_count(self.regrouped, 'run')} of documents moved, to join the documents of each query")
        if self.replaced_docids:
            rows.append(f"{_count(self.replaced_docids, 'document id')} with bytes that are not UTF-8, shown as \ufffd")
        size = f"{self.bytes / 1e6:,.1f} MB"
        speed = f"{size} in {self.seconds:.2f} s ({self.megabytes_per_second:,.0f} MB/s)"
        rows.append(f"{size}, mapped from a cache" if self.cached else speed)
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ReadSummary":
        """Return the summary of a reader from the result of `to_json`.

        Args:
            values: result of `to_json`.
        """
        return cls(**{**values, "files": tuple(values["files"])})


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
