"""What a reader read, in numbers and in words."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ReadSummary:
    """What `read_letor` found in the files; `print` it, or ask for a number.

    Example:
        >>> print(ReadSummary(("a.txt",), 2_000_000, 7, 5, 2, 46, 1, 1, missing=3, seconds=0.5))
        5 documents in 2 lists, 46 features, from a.txt
        7 lines: 5 documents, 1 blank, 1 comment
        3 missing values filled
        2.0 MB in 0.50 s (4 MB/s)
    """

    files: tuple[str, ...]  # their paths, in the order of reading
    bytes: int  # of text, after decompression
    lines: int  # number of lines, of all kinds
    documents: int  # number of documents
    lists: int  # number of lists, one per query
    features: int  # number of features per document
    blank_lines: int  # lines without text
    comment_lines: int  # lines that begin with #
    missing: int = 0  # values that were not finite, and were filled
    regrouped: int = 0  # runs of documents that were moved to join their query
    replaced_docids: int = 0  # document ids with bytes that are not UTF-8, each shown as U+FFFD
    seconds: float = 0.0  # how long reading took
    cached: bool = False  # mapped from a cache; the other numbers are from when it was written

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        source = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files, {self.files[0]} first"
        rows = [
            f"{_count(self.documents, 'document')} in {_count(self.lists, 'list')}, "
            f"{_count(self.features, 'feature')}, from {source}",
            f"{_count(self.lines, 'line')}: {_count(self.documents, 'document')}, {self.blank_lines:,} blank, "
            f"{_count(self.comment_lines, 'comment')}",
        ]
        if self.missing:
            rows.append(f"{_count(self.missing, 'missing value')} filled")
        if self.regrouped:
            rows.append(f"{_count(self.regrouped, 'run')} of documents moved to join their query")
        if self.replaced_docids:
            rows.append(f"{_count(self.replaced_docids, 'document id')} with bytes that are not UTF-8, shown as \ufffd")
        size = f"{self.bytes / 1e6:,.1f} MB"
        speed = f"{size} in {self.seconds:.2f} s ({self.megabytes_per_second:,.0f} MB/s)"
        rows.append(f"{size} of text, mapped from a cache" if self.cached else speed)
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ReadSummary":
        """Make a summary from what `to_json` gave.

        Args:
            values: what `to_json` gave.
        """
        return cls(**{**values, "files": tuple(values["files"])})


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
