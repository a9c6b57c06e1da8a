"""Show results: `print` shows a text table, a notebook shows an HTML table, and `frame` makes a data frame."""

import html
from collections.abc import Callable, Mapping
from typing import Any


class ResultTable:
    """Base class of results that have a table: `rows` has the cells, `notes` has the lines below the table."""

    _align = staticmethod(str.ljust)  # of all columns but the first one, as text

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: a header, then the rows."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Return the lines below the table."""
        return []

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows(), self._align), *self.notes()])

    def _repr_html_(self) -> str:
        """Return the table for a notebook; all texts are escaped."""
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.rows()]
        head, *body = (f"<tr>{line}</tr>" for line in lines)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{notes}"


def aligned(rows: list[tuple[str, ...]], align: Callable[[str, int], str] = str.ljust) -> list[str]:
    """Return the lines of a text table.

    Args:
        rows: cells of each row.
        align: function that pads the cells of all columns but the first one, which is aligned to the left.

    Example:
        >>> print(*aligned([("feature", "gain"), ("bm25", "0.5")], str.rjust), sep="\\n")
        feature  gain
        bm25      0.5
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(align, row[1:], widths[1:])] for row in rows)
    return ["  ".join(line).rstrip() for line in lines]


def frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas data frame; if pandas is not installed, a polars data frame.

    Args:
        columns: values of each column, by name.
    """
    try:
        from pandas import DataFrame
    except ModuleNotFoundError:
        try:
            from polars import DataFrame
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("to_frame needs pandas or polars: pip install 'rankgrad[frames]'") from error
    return DataFrame(dict(columns))
