"""Write the page of experiments and runs: tables are HTML, everything else is data for the program in `web/`."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from rankgrad.experiments.report import charts
from rankgrad.experiments.report.chart_data import by_column
from rankgrad.experiments.report.page_content import ChartPanel, Study
from rankgrad.experiments.tables.plain_table import PlainTable
from rankgrad.experiments.tables.table import Table
from rankgrad.experiments.tables.text import columns, subject

# Field by which each column is sorted.
_VALUES = {"ours": "mean", "difference": "difference", "p": "adjusted", "paper": "printed", "diff": "gap"}
_FILTERED = 6  # a table with more rows than this has a field to filter the rows
_EMPTY = '<p class="note empty" hidden>No data for this selection.</p>'


def page(studies: Sequence[Study]) -> str:
    """Return the HTML of a page of studies, which needs no network.

    Args:
        studies: studies to show; each is one section of the page.
    """
    from rankgrad import __version__

    several = len(studies) > 1
    title = "Results" if several else studies[0].title
    links = "".join(f'<li><a href="#s{place}">{escape(study.title)}</a></li>' for place, study in enumerate(studies))
    data = {f"s{place}": _data(study) for place, study in enumerate(studies)}
    style, library = _read("page.css"), charts.library()
    program = "\n".join(_read(f"{name}.js") for name in ("tables", "queries", "page"))
    return _filled(
        _read("page.html"),
        policy=policy(style, library, program),
        title=escape(title),
        style=style,
        contents=f"<nav aria-label='Studies'><ul>{links}</ul></nav>" if several else "",
        studies="\n".join(_study(f"s{place}", study, several) for place, study in enumerate(studies)),
        version=escape(__version__),
        # `<` is escaped, because `</script>` in a text would end the script element. The JSON contains only ASCII.
        data=_for_vega(json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")),
        library=library,
        program=program,
    )


def policy(style: str, *scripts: str) -> str:
    """Return the Content-Security-Policy of the page: only the scripts of the page run, and nothing is loaded.

    Therefore a text that is inserted into the page without escaping cannot run code or send data.
    """

    def known(text: str) -> str:
        return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    programs = f"script-src {' '.join(map(known, scripts))}; " if scripts else ""
    allowed = f"{programs}style-src {known(style)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _data(study: Study) -> dict[str, Any]:
    first = study.choice()
    specs = {
        panel.chart: {
            "rows": panel.rows,
            "everyModel": panel.every_model,
            "byRow": panel.by_row,
            "spec": panel.draw(first).to_dict(),
        }
        for panel in study.panels()
    }
    specs["gains"] = {"rows": "gains", "everyModel": True, "byRow": False, "spec": charts.gains(first).to_dict()}
    return {
        "charts": specs,
        "rows": {name: by_column(rows) for name, rows in study.rows.items() if rows},
        "explorers": study.explorers,
        "digits": study.digits,
    }


def _study(name: str, study: Study, several: bool) -> str:
    panels = study.panels()
    texts = "".join(_details(heading, text) for heading, text in study.texts)
    above = [panel for panel in panels if panel.chart in ("tested", "overview")]
    below = [panel for panel in panels if panel not in above]
    drawn = {row["loss"] for panel in below if not panel.by_row for row in study.rows[panel.rows]}
    looks = zip(study.losses, charts.styles(study.losses), strict=True)
    chips = "".join(_chip(loss, *look[:2]) for loss, look in looks if loss in drawn)
    return _filled(
        _read("study.html"),
        id=name,
        heading=f"<h2>{escape(study.title)}</h2>" if several else "",
        warnings="".join(f'<p class="warning">{escape(text)}</p>' for text in study.warnings),
        summary=" ".join(map(escape, study.summary)),
        data=_select("Data set", "data", study.data),
        model=_select("Model", "model", study.models),
        metric=_select("Metric", "metric", study.metrics),
        overview="".join(_figure(panel, study.step) for panel in above),
        tables="".join(_table(f"{name}-t{place}", table) for place, table in enumerate(study.tables)),
        chips=f'<div class="chips" role="group" aria-label="Rows to highlight">{chips}</div>' if len(drawn) > 1 else "",
        charts="".join(_figure(panel, study.step) for panel in below),
        queries=escape(study.queries),
        facts="".join(f"<li>{escape(fact)}</li>" for fact in study.facts),
        texts=texts,
    )


def _select(label: str, name: str, values: Sequence[str]) -> str:
    """Return the HTML of a `select` element of the page; an element with a single choice is hidden."""
    hidden = " hidden" if len(values) < 2 else ""
    return f'<label{hidden}>{label} <select data-choose="{name}">{_options(values)}</select></label>'


def _chip(loss: str, colour: str, dash: Sequence[int]) -> str:
    line = f'<line x1="1" x2="25" y1="5" y2="5" stroke="{colour}" stroke-dasharray="{",".join(map(str, dash))}"/>'
    sample = f'<svg viewBox="0 0 26 10" aria-hidden="true">{line}</svg>'
    return f'<button type="button" aria-pressed="false" data-loss="{escape(loss)}">{sample}{escape(loss)}</button>'


def _figure(panel: ChartPanel, step: str) -> str:
    # The program sets the heading of the overview to the selected metric and data set.
    selected = '<span data-selected="metric"></span> on <span data-selected="data"></span>'
    heading = f"{selected if panel.chart == 'overview' else ''}{escape(panel.heading)}"
    caption = f"<figcaption><h3>{heading}</h3><p>{escape(panel.caption)}</p>"
    if panel.chart == "curves":
        options = {"best": "best so far", "own": f"each {step}"}
        first = panel.draw.keywords["shown"]  # type: ignore[attr-defined]
        choices = "".join(
            f'<option value="{value}"{" selected" if value == first else ""}>{escape(text)}</option>'
            for value, text in options.items()
        )
        caption += f'<label>Show <select data-signal="shown">{choices}</select></label>'
    drawing = '<div class="drawing"></div>'
    return f'<figure class="chart" data-chart="{escape(panel.chart)}">{caption}</figcaption>{drawing}{_EMPTY}</figure>'


def _table(name: str, table: Table | PlainTable) -> str:
    """Return the HTML of a sortable table of the page, with its notes."""
    title, heads, body = _plain_grid(table) if isinstance(table, PlainTable) else _experiment_grid(table)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    field = f'<input type="search" data-filter autocomplete="off" aria-controls="{name}-body">'
    find = (
        f'<label class="find">Filter rows {field}</label><span class="note" data-count aria-live="polite"></span>'
        if len(body) > _FILTERED
        else ""
    )
    return (
        f'<figure class="results"><figcaption><h3 id="{name}">{escape(title)}</h3>{find}</figcaption>'
        f'<div class="wide" tabindex="0" role="region" aria-labelledby="{name}"><table class="sortable">'
        f"<thead><tr>{''.join(heads)}</tr></thead>"
        f'<tbody id="{name}-body">{"".join(f"<tr>{row}</tr>" for row in body)}</tbody></table></div>'
        + (f'<ul class="notes">{notes}</ul></figure>' if notes else "</figure>")
    )


def _plain_grid(table: PlainTable) -> tuple[str, list[str], list[str]]:
    """Return the title, the headings and the rows of a plain table, as HTML for the page."""
    heads = [_head(head, head, "number" if n else "") for head, n in zip(table.heads, table.numeric, strict=True)]
    body = []
    for first, *fields in table.rows:
        cells = [f'<th scope="row">{escape(first.text)}</th>']
        for field, number in zip(fields, table.numeric[1:], strict=True):
            sort = "" if field.value is None else f' data-value="{field.value!r}"'
            cells.append(f'<td class="{"number" if number else "text"}"{sort}>{escape(field.text)}</td>')
        body.append("".join(cells))
    return table.title, heads, body


def _experiment_grid(table: Table) -> tuple[str, list[str], list[str]]:
    """Return the title, the headings and the rows of an experiment's table, as HTML for the page.

    On narrow screens, the model is below the loss.
    """
    several = len({row.model for row in table.rows}) > 1
    heads = [_head("loss", "loss")] + ([_head("model", "model", "model")] if several else [])
    numbers = [(metric, column) for metric in table.metrics for column in columns(table, metric)]
    for _, column in numbers:
        spoken = f"{column.metric} {column.head}"
        shown = column.metric if column.head == "ours" else column.head
        heads.append(_head(shown, spoken, "number group" if column.head == "ours" else "number"))
    body = []
    for place, row in enumerate(table.rows):
        model = escape(row.model)
        cells = [f'<th scope="row">{escape(row.loss)}{f"<small>{model}</small>" if several else ""}</th>']
        cells += [f'<td class="model">{model}</td>'] if several else []
        for metric, column in numbers:
            cells.append(_field(column.numbers[place], getattr(row.entries[metric], _VALUES[column.head]), column.head))
        body.append("".join(cells))
    return subject(table), heads, body


def _head(shown: str, spoken: str, kind: str = "") -> str:
    button = f'<button type="button" aria-label="{escape(spoken)}">{escape(shown)}</button>'
    return f'<th scope="col" class="{kind}" aria-sort="none">{button}</th>'


def _field(number: Any, value: float | None, head: str) -> str:
    text = escape(number.text)
    main, plus, spread = text.partition(" ±")
    text = f"{main}<small> ±{spread}</small>" if plus else text
    text = f"<strong>{text}</strong>" if number.strong else text
    mark = f"<sup>{escape(number.mark)}</sup>" if number.mark else ""
    sort = "" if value is None else f' data-value="{value!r}"'
    return f'<td class="number{" group" if head == "ours" else " side"}"{sort}>{text}{mark}</td>'


def _options(values: Iterable[str]) -> str:
    # The value is also given as an attribute, because browsers collapse spaces in the text.
    known = (json.loads(_for_vega(json.dumps(value))) for value in values)
    return "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in known)


def _for_vega(text: str) -> str:
    """Return JSON text in which a space of no width follows the name `__proto__`, with which Vega would fail."""
    return text.replace('"__proto__"', '"__proto__\\u200b"')


def _details(summary: str, text: str) -> str:
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>" if text.strip() else ""


def _read(name: str) -> str:
    return files("rankgrad.experiments.report").joinpath("web", name).read_text(encoding="utf-8")


def _filled(template: str, **values: str) -> str:
    """Replace each `{{name}}` in an HTML template by its value; a `{{name}}` in a value is not replaced."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
