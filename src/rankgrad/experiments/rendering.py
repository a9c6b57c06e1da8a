"""A table as text: for the terminal, in Markdown, in LaTeX."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rankgrad.experiments.tables import Entry, Table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

ABSENT = "\N{EN DASH}"
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "†": r"$^{\dagger}$", "▲": r"$^{\wedge}$", "▼": r"$^{\vee}$", ABSENT: "--",
}  # fmt: skip


class Number(NamedTuple):
    """What stands in one field."""

    text: str
    mark: str = ""
    strong: bool = False


class Column(NamedTuple):
    """One column of numbers."""

    metric: str  # as shown
    head: str  # ours, p, paper, diff
    numbers: list[Number]


def columns(table: Table, metric: str) -> list[Column]:
    """The columns of a metric: ours, and as far as there are any the p-values, the paper's numbers, the differences."""
    entries = [row.entries[metric] for row in table.rows]
    found = [Column(table.short(metric), "ours", [_ours(table, entry) for entry in entries])]
    if any(entry.adjusted is not None for entry in entries):
        found.append(Column(table.short(metric), "p", [Number(_probability(entry.adjusted)) for entry in entries]))
    if any(entry.printed is not None for entry in entries):
        shown = [Number(_number(table, entry.printed)) for entry in entries]
        gaps = [Number(_number(table, entry.gap, "+")) for entry in entries]
        found += [Column(table.short(metric), "paper", shown), Column(table.short(metric), "diff", gaps)]
    return found


def labels(table: Table) -> tuple[list[str], list[list[str]]]:
    """What stands before the numbers: its headings, and for each row model and loss; one model is named in no row."""
    if len({row.model for row in table.rows}) == 1:
        return ["loss"], [[row.loss] for row in table.rows]
    return ["model", "loss"], [[row.model, row.loss] for row in table.rows]


def caption(table: Table) -> str:
    """What the table is: its title, and what the numbers are of."""
    title = table.title.strip().rstrip(".")
    return f"{title}. {subject(table)}" if title else subject(table)


def subject(table: Table) -> str:
    """What the numbers are of: the data set, the model if there is one only, the unit."""
    models = list(dict.fromkeys(row.model for row in table.rows))
    said = [table.data, models[0] if len(models) == 1 else "", "in percent" if table.scale == 100 else ""]
    return ", ".join(filter(None, said))


def rich(table: Table, width: int = 80) -> "RenderableType":
    """Tables for the terminal with as many metrics side by side as fit, then the notes."""
    from rich.console import Console, Group
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(width=10_000)
    parts: list[RenderableType] = [Text(table.title, style="bold"), Text(subject(table))]
    some: list[Column] = []
    for metric in table.metrics:
        own = columns(table, metric)
        whole = _grid(table, [*some, *own])
        if some and Measurement.get(console, console.options, whole).maximum > width:
            parts.append(_grid(table, some))
            some = []
        some += own
    parts.append(_grid(table, some))
    notes = RichTable.grid(padding=(0, 1, 0, 0))
    for note in table.notes:
        notes.add_row(" ·", Text(note), style="dim")
    return Group(*parts, notes)


def markdown(table: Table) -> str:
    """One table with all metrics; notes as a list."""
    heads, names = labels(table)
    numbers = [column for metric in table.metrics for column in columns(table, metric)]
    header = [*heads, *(c.metric if c.head == "ours" else f"{c.metric} {c.head}" for c in numbers)]
    lines = [header, [":--"] * len(heads) + ["--:"] * len(numbers)]
    for place, name in enumerate(names):
        lines.append([*map(_escape_markdown, name), *(_markdown(column.numbers[place]) for column in numbers)])
    grid = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "\n".join(f"- {_escape_markdown(note)}" for note in table.notes)
    return f"**{_escape_markdown(caption(table))}**\n\n{grid}\n\n{notes}\n"


def latex(table: Table) -> str:
    """A `table*` of booktabs; p-values are left to the marks."""
    heads, names = labels(table)
    groups = [[c for c in columns(table, metric) if c.head != "p"] for metric in table.metrics]
    numbers = [column for group in groups for column in group]
    lines = [
        r"\begin{table*}",
        r"\centering",
        rf"\caption{{{_escape(caption(table))}}}",
        rf"\begin{{tabular}}{{{'l' * len(heads)}{'r' * len(numbers)}}}",
        r"\toprule",
        *_latex_heads(heads, groups),
        r"\midrule",
    ]
    before = names[0][0] if names else ""
    for place, name in enumerate(names):
        if len(heads) > 1 and name[0] != before:
            lines.append(r"\midrule")
        before = name[0]
        lines.append(" & ".join([*map(_escape, name), *(_latex(column.numbers[place]) for column in numbers)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\par\smallskip\footnotesize"]
    lines.append("\n".join(f"{_escape(note)}." for note in table.notes))
    return "\n".join([*lines, r"\end{table*}", ""])


def _grid(table: Table, numbers: Sequence[Column]) -> "RichTable":
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    heads, names = labels(table)
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        grid.add_column(head, overflow="fold")
    fields = []
    for column in numbers:
        # Marks stand to the right of digits that are below each other, which `justify` would not leave them.
        room = max(len(number.mark) for number in column.numbers)
        shown = [number.text.rjust(max(len(n.text) for n in column.numbers)) + number.mark for number in column.numbers]
        head = column.metric if column.head == "ours" else column.head  # the metric stands once, above ours
        grid.add_column(Text(head.rjust(max(map(len, shown)) - room)), no_wrap=True)
        pairs = zip(shown, column.numbers, strict=True)
        fields.append([Text(text, style="bold" if number.strong else "") for text, number in pairs])
    for place, name in enumerate(names):
        last = place + 1 == len(names) or name[0] != names[place + 1][0]
        row = [field[place] for field in fields]
        grid.add_row(*map(escape, name), *row, end_section=last and len(heads) > 1)
    return grid


def _ours(table: Table, entry: Entry) -> Number:
    if not entry.wanted:
        return Number(ABSENT)
    if not entry.complete:
        return Number(f"{_number(table, entry.mean)} ({entry.runs}/{entry.wanted})")
    spread = "" if entry.spread is None else f" ±{_number(table, entry.spread)}"
    return Number(_number(table, entry.mean) + spread, entry.mark, entry.best)


def _number(table: Table, value: float | None, sign: str = "") -> str:
    return ABSENT if value is None else f"{value * table.scale:{sign}.{table.digits}f}"


def _probability(p: float | None) -> str:
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _markdown(number: Number) -> str:
    text = _escape_markdown(number.text)
    return (f"**{text}**" if number.strong else text) + number.mark


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\|*_`<[" else letter for letter in text)


def _latex(number: Number) -> str:
    if number.text == ABSENT:
        return "--"
    text = number.text.replace("-", "$-$", 1) if number.text.startswith("-") else number.text
    value, _, rest = text.partition(" ±")
    whole = (rf"\textbf{{{value}}}" if number.strong else value) + (rf" {{\scriptsize$\pm${rest}}}" if rest else "")
    return whole.replace(ABSENT, "--") + _LATEX.get(number.mark, "")


def _latex_heads(heads: Sequence[str], groups: Sequence[Sequence[Column]]) -> Iterator[str]:
    """The metrics above, each over its columns; below, where a metric has several, what they are."""
    top, rules, below, at = [*map(_escape, heads)], [], [""] * len(heads), len(heads) + 1
    for group in groups:
        top.append(rf"\multicolumn{{{len(group)}}}{{c}}{{{_escape(group[0].metric)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(group) - 1}}}")
        below += [column.head for column in group]
        at += len(group)
    yield " & ".join(top) + r" \\"
    if any(len(group) > 1 for group in groups):
        yield " ".join(rules)
        yield " & ".join(below) + r" \\"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
