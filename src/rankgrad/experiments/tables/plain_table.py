"""A table of texts and numbers for the page of a demo, a training run or a tuning run."""

from dataclasses import dataclass
from typing import NamedTuple

from rankgrad.experiments.tables.latex import escape_latex
from rankgrad.experiments.tables.text import escape_markdown


class Field(NamedTuple):
    """One field of a plain table."""

    text: str
    value: float | None = None  # number by which the column is sorted; None for a text or a missing number


@dataclass(frozen=True)
class PlainTable:
    """A table of texts and numbers; the first column contains the names of the rows.

    Example:
        >>> print(PlainTable("Runs", ("run", "nDCG@10"), ((Field("a"), Field("0.50", 0.5)),)).markdown())
        **Runs**
        <BLANKLINE>
        | run | nDCG@10 |
        | :-- | --: |
        | a | 0.50 |
        <BLANKLINE>
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Field, ...], ...]
    notes: tuple[str, ...] = ()

    def records(self) -> list[dict[str, str | float | None]]:
        """Return one dictionary per row of the plain table, for JSON, by heading; values are numbers, texts or None."""

        def plain(field: Field) -> str | float | None:
            interval = " to " in field.text  # such a field is sorted by its lower end
            return field.text or None if field.value is None or interval else field.value

        return [dict(zip(self.heads, map(plain, row), strict=True)) for row in self.rows]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """True for each column of the plain table that contains a number."""
        return tuple(any(row[place].value is not None for row in self.rows) for place in range(len(self.heads)))

    def markdown(self) -> str:
        """Return the plain table in Markdown, with the notes as a list."""
        lines = [[*map(escape_markdown, self.heads)], ["--:" if number else ":--" for number in self.numeric]]
        lines += [[escape_markdown(field.text) for field in row] for row in self.rows]
        grid = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = "".join(f"- {escape_markdown(note)}\n" for note in self.notes)
        return f"**{escape_markdown(self.title)}**\n\n{grid}\n" + (f"\n{notes}" if notes else "")

    def latex(self) -> str:
        r"""Return the plain table in LaTeX, which needs `\usepackage{booktabs}`."""
        lines = [" & ".join(escape_latex(field.text) for field in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table*}",
                r"\centering",
                rf"\caption{{{escape_latex(self.title)}}}",
                r"\footnotesize\setlength{\tabcolsep}{3pt}",
                rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in self.numeric)}}}",
                r"\toprule",
                " & ".join(map(escape_latex, self.heads)) + r" \\",
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                *([r"\par\smallskip", *(f"{escape_latex(note)}." for note in self.notes)] if self.notes else []),
                r"\end{table*}",
                "",
            ]
        )
