r"""Write a table in LaTeX: one or more `table*`, each at most one page of `article`. Only `booktabs` is needed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rankgrad.experiments.tables.text import ABSENT, Column, NumberText, caption, columns, side_by_side

if TYPE_CHECKING:
    from rankgrad.experiments.tables.table import Table, TableRow

# Size of a page of `article` in `\footnotesize`: the width is for 10 to 12 points, the height for 10 and 11 points.
_WIDTH = 76.0  # width of a page, in digits
_GAP = 1.5  # width of the gap between columns, in digits
_ROWS = 30  # number of rows per page
# Width, in digits, of characters that are much wider or narrower than a digit.
_WIDTHS = {**dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZmw@=%±", 1.5), **dict.fromkeys("ijlt.,:;'()[] ", 0.6)}
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "†": r"$^{\dagger}$", "▲": r"$^{\wedge}$", "▼": r"$^{\vee}$", ABSENT: "--",
}  # fmt: skip

Group = list[Column]  # columns of one metric


def latex(table: "Table") -> str:
    """Return the table in LaTeX, split into parts of at most one page; p-values are shown only as marks."""
    groups = [
        [column for column in columns(table, metric) if column.head not in ("difference", "p")]
        for metric in table.metrics
    ]
    free = _WIDTH - _widest(["loss", *(row.loss for row in table.rows)])
    across = side_by_side(groups, lambda some: sum(map(_width, some)) <= free)
    parts = [(rows, some) for some in across for rows in _pages(table.rows)]
    notes = "\n".join(f"{escape_latex(note)}." for note in table.notes)
    found = []
    for number, (rows, some) in enumerate(parts, start=1):
        part = f" (part {number} of {len(parts)}; the notes are below the last part)" if len(parts) > 1 else ""
        found += [
            r"\begin{table*}",
            r"\centering",
            rf"\caption{{{escape_latex(caption(table) + part)}}}",
            r"\footnotesize\setlength{\tabcolsep}{3pt}",
            *_tabular(table, rows, some),
            *([r"\par\smallskip", notes] if number == len(parts) else []),
            r"\end{table*}",
            "",
        ]
    return "\n".join(found)


def _tabular(table: "Table", rows: range, groups: Sequence[Group]) -> Iterator[str]:
    """Yield the LaTeX lines of some rows and metrics. If the table has several models, each model has a heading."""
    numbers = [column for group in groups for column in group]
    several, before = len({row.model for row in table.rows}) > 1, None
    yield rf"\begin{{tabular}}{{l{'r' * len(numbers)}}}"
    yield r"\toprule"
    yield from _heads(groups)
    for place in rows:
        row = table.rows[place]
        if row.model != before:
            yield r"\midrule"
            if several:
                yield rf"\multicolumn{{{1 + len(numbers)}}}{{l}}{{\emph{{{escape_latex(row.model)}}}}} \\"
        before = row.model
        yield " & ".join([escape_latex(row.loss), *(_field(column.numbers[place]) for column in numbers)]) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _heads(groups: Sequence[Group]) -> Iterator[str]:
    """Yield the LaTeX headings: first the metrics and then, if a metric has several columns, those of the columns."""
    top, rules, below, at = ["loss"], [], [""], 2
    for group in groups:
        name = r"\\".join(map(escape_latex, _lines(group[0].metric)))
        name = rf"\shortstack{{{name}}}" if r"\\" in name else name
        top.append(rf"\multicolumn{{{len(group)}}}{{c}}{{{name}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(group) - 1}}}")
        below += [column.head for column in group]
        at += len(group)
    yield " & ".join(top) + r" \\"
    if any(len(group) > 1 for group in groups):
        yield " ".join(rules)
        yield " & ".join(below) + r" \\"


def _lines(metric: str) -> list[str]:
    """Return the heading of a metric in LaTeX: its name and, on a second line, its options, such as `(empty='one')`."""
    name, bracket, rest = metric.partition("(")
    options, _, cutoff = rest.rpartition(")")
    return [name + cutoff, f"({options})"] if bracket else [metric]


def _pages(rows: "Sequence[TableRow]") -> list[range]:
    """Split the rows of a LaTeX table into pages, between models if possible; return the row numbers of each page."""
    found, start = [], 0
    while start < len(rows):
        end = min(start + _ROWS, len(rows))
        if end < len(rows):
            between = [place for place in range(start + 1, end + 1) if rows[place].model != rows[place - 1].model]
            end = max(between, default=end)
        found.append(range(start, end))
        start = end
    return found


def _field(number: NumberText) -> str:
    if number.text == ABSENT:
        return "--"
    text = number.text.replace("-", "$-$", 1) if number.text.startswith("-") else number.text
    value, _, rest = text.partition(" ±")
    whole = (rf"\textbf{{{value}}}" if number.strong else value) + (rf" {{\scriptsize$\pm${rest}}}" if rest else "")
    return whole.replace(ABSENT, "--") + _LATEX.get(number.mark, "")


def _width(group: Group) -> float:
    """Return the width of a metric in LaTeX, in digits: of its columns and gaps, or of its name if that is wider."""
    fields = [_widest([column.head, *(number.text + number.mark for number in column.numbers)]) for column in group]
    return max(sum(fields) + _GAP * len(group), _widest(_lines(group[0].metric)) + _GAP)


def _widest(texts: Sequence[str]) -> float:
    return max(sum(_WIDTHS.get(letter, 1.0) for letter in text) for text in texts)


def escape_latex(text: str) -> str:
    """Escape the characters that have a meaning in LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
