"""Write a table for the terminal and in Markdown, and compute the columns that all forms of a table show."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

    from rankgrad.experiments.tables.table import Table, TableEntry

ABSENT = "\N{EN DASH}"


class NumberText(NamedTuple):
    """Text of one number in a table of an experiment."""

    text: str
    mark: str = ""  # mark of significance
    strong: bool = False  # True: shown in bold


class Column(NamedTuple):
    """One column of numbers in a table of an experiment."""

    metric: str  # name of the metric as shown
    head: str  # heading: ours, difference, p, paper or diff
    numbers: list[NumberText]  # one per row


def columns(table: "Table", metric: str) -> list[Column]:
    """Return the columns of a metric in a table: our numbers and, if they exist, other numbers.

    The other numbers are the results of tests, the numbers of the paper, and our differences from the paper.
    """
    entries = [row.entries[metric] for row in table.rows]
    found = [Column(table.short(metric), "ours", [_ours(table, entry) for entry in entries])]
    if any(entry.adjusted is not None for entry in entries):
        if metric == table.metrics[0]:  # only for the first metric, because the column is wide
            intervals = [NumberText(_difference(table, entry)) for entry in entries]
            found.append(Column(table.short(metric), "difference", intervals))
        found.append(Column(table.short(metric), "p", [NumberText(_probability(entry.adjusted)) for entry in entries]))
    if any(entry.printed is not None for entry in entries):
        shown = [NumberText(_number(table, entry.printed)) for entry in entries]
        gaps = [NumberText(_number(table, entry.gap, "+")) for entry in entries]
        found += [Column(table.short(metric), "paper", shown), Column(table.short(metric), "diff", gaps)]
    return found


def labels(table: "Table") -> tuple[list[str], list[list[str]]]:
    """Return the headings of a table's columns of names, and the names in each row.

    The columns are model and loss. If all rows have the same model, the only column is loss.
    """
    if len({row.model for row in table.rows}) == 1:
        return ["loss"], [[row.loss] for row in table.rows]
    return ["model", "loss"], [[row.model, row.loss] for row in table.rows]


def form_label(form: str | None) -> str:
    """Return a sentence that labels the table of a reduced recipe; an empty text for a complete recipe.

    Example:
        >>> form_label("smoke")
        'Smoke run (--smoke): a short test of the recipe, not a result.'
    """
    return f"{form.capitalize()} run (--{form}): a short test of the recipe, not a result." if form else ""


def caption(table: "Table") -> str:
    """Return the caption of a table: title, data set, model and unit; for a reduced recipe, also the label."""
    title = table.title.strip().rstrip(".")
    end = "" if title.endswith(("?", "!")) or not title else "."
    return " ".join(filter(None, (form_label(table.form), title + end, subject(table))))


def subject(table: "Table") -> str:
    """Return the data set, the model (if there is only one) and the unit of a table."""
    models = list(dict.fromkeys(row.model for row in table.rows))
    parts = [table.data, models[0] if len(models) == 1 else "", "in percent" if table.scale == 100 else ""]
    return ", ".join(filter(None, parts))


def side_by_side(
    groups: Iterable[list[Column]], fits: Callable[[list[list[Column]]], bool]
) -> list[list[list[Column]]]:
    """Split the metrics of a table into parts that `fits` accepts; a part with one metric is always accepted."""
    parts: list[list[list[Column]]] = []
    for group in groups:
        if parts and fits([*parts[-1], group]):
            parts[-1].append(group)
        else:
            parts.append([group])
    return parts


def rich(table: "Table", width: int = 80) -> "RenderableType":
    """Return a table for the terminal, in one or more parts, with the notes; lines have at most `width` characters.

    A part is wider only if it has a single metric that needs more characters.
    """
    from rich.console import Console, Group
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(width=10_000)

    def fits(groups: list[list[Column]]) -> bool:
        return Measurement.get(console, console.options, _grid(table, groups)).maximum <= width

    notes = RichTable.grid(padding=(0, 1, 0, 0))
    for note in table.notes:
        notes.add_row(" ·", Text(note), style="dim")
    parts = side_by_side([columns(table, metric) for metric in table.metrics], fits)
    grids = [_grid(table, groups) for groups in parts]
    label = [Text(form_label(table.form), style="bold yellow")] if table.form else []
    return Group(*label, Text(table.title, style="bold"), Text(subject(table)), *grids, notes)


def markdown(table: "Table") -> str:
    """Return the table of an experiment in Markdown, with all metrics, and the notes as a list."""
    heads, names = labels(table)
    numbers = [column for metric in table.metrics for column in columns(table, metric)]
    header = [*heads, *(c.metric if c.head == "ours" else f"{c.metric} {c.head}" for c in numbers)]
    lines = [header, [":--"] * len(heads) + ["--:"] * len(numbers)]
    for place, name in enumerate(names):
        lines.append([*map(escape_markdown, name), *(_markdown(column.numbers[place]) for column in numbers)])
    grid = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "\n".join(f"- {escape_markdown(note)}" for note in table.notes)
    return f"**{escape_markdown(caption(table))}**\n\n{grid}\n\n{notes}\n"


def _grid(table: "Table", groups: Sequence[Sequence[Column]]) -> "RichTable":
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    heads, names = labels(table)
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        grid.add_column(head, overflow="fold")
    fields = []
    for column in chain(*groups):
        # Marks are to the right of the digits, so that the digits stay aligned; `justify` would move the digits.
        marks = max(len(number.mark) for number in column.numbers)
        shown = [number.text.rjust(max(len(n.text) for n in column.numbers)) + number.mark for number in column.numbers]
        head = column.metric if column.head == "ours" else column.head  # the metric is shown once, above our numbers
        grid.add_column(Text(head.rjust(max(map(len, shown)) - marks)), no_wrap=True)
        pairs = zip(shown, column.numbers, strict=True)
        fields.append([Text(text, style="bold" if number.strong else "") for text, number in pairs])
    for place, name in enumerate(names):
        last = place + 1 == len(names) or name[0] != names[place + 1][0]
        row = [field[place] for field in fields]
        grid.add_row(*map(escape, name), *row, end_section=last and len(heads) > 1)
    return grid


def _ours(table: "Table", entry: "TableEntry") -> NumberText:
    if not entry.wanted:
        return NumberText(ABSENT)
    if not entry.complete:
        return NumberText(f"{_number(table, entry.mean)} ({entry.runs}/{entry.wanted})")
    spread = "" if entry.spread is None else f" ±{_number(table, entry.spread)}"
    return NumberText(_number(table, entry.mean) + spread, entry.mark, entry.best)


def _number(table: "Table", value: float | None, sign: str = "") -> str:
    return ABSENT if value is None else f"{value * table.scale:{sign}.{table.digits}f}"


def _difference(table: "Table", entry: "TableEntry") -> str:
    if entry.interval is None:
        return ""
    low, high = (_number(table, end, "+") for end in entry.interval)
    return f"{_number(table, entry.difference, '+')} [{low}, {high}]"


def _probability(p: float | None) -> str:
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _markdown(number: NumberText) -> str:
    text = escape_markdown(number.text)
    return (f"**{text}**" if number.strong else text) + number.mark


def escape_markdown(text: str) -> str:
    """Escape the characters that have a meaning in Markdown."""
    return "".join(f"\\{letter}" if letter in "\\|*_`<[" else letter for letter in text)
