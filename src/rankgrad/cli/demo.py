"""`rankgrad demo`: trains and compares rankers on generated data, and writes a table and an HTML report."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from rankgrad.data import Dataset, Splits

METRIC = "nDCG(empty='skip')@10"  # lists without a relevant document are skipped
PREPROCESS = "log1p,standardise"
LOSSES = ("mse", "softmax", "lambdaloss")


@dataclass(frozen=True)
class DemoRow:
    """One row of the table: a ranker, its metric and its training time."""

    name: str
    mean: float
    low: float
    high: float
    share: float  # mean divided by the achievable mean
    seconds: float = 0.0
    curve: tuple[float, ...] = ()  # validation nDCG@10 after each epoch


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    lists: Annotated[int, typer.Option(min=30, help="Number of training lists to generate.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the training lists.")] = 40,
    seed: Annotated[int, typer.Option(help="Random seed of the data and the rankers.")] = 0,
) -> None:
    """Generate lists, compare baselines and three losses on them, print a table and write a report.

    For generated lists, the best achievable result is known. Each result is also given as a share of this best result.

    Example: `rankgrad demo --lists 500 --out demo`
    """
    from rich.table import Table

    import rankgrad as rg
    from rankgrad.cli.terminal_text import screen

    console = screen()
    data = rg.data.synthetic(lists, seed=seed)
    assert data.test is not None
    console.print(f"data: {data.train}\n      {data.test}\n{METRIC} on test:", highlight=False)
    best = _row("achievable", data.test.best, data.test, None)
    rows = []
    for name, scores, seconds, curve in _rankings(data, epochs, seed):
        rows.append(replace(_row(name, scores, data.test, best.mean), seconds=seconds, curve=curve))
        trained = f", trained in {seconds:.1f} s" if seconds else ""
        console.print(f"  {name}: {rows[-1].mean:.4f}{trained}")
    rows.append(best)
    table = Table(title=f"{METRIC} on {len(data.test)} test lists, one seed")
    for column in ("ranker", "mean", "95% interval", "share of achievable", "seconds"):
        table.add_column(column, justify="left" if column == "ranker" else "right")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(f"report: {_write(rows, data, out)}", soft_wrap=True)


Ranking = tuple[str, "np.ndarray[Any, Any]", float, tuple[float, ...]]


def _rankings(data: "Splits", epochs: int, seed: int) -> Iterator[Ranking]:
    """Yield the test scores of a random order, the best feature on train, a linear fit, and MLPs with three losses."""
    import numpy as np

    import rankgrad as rg

    train, test = data.train, data.test
    assert test is not None
    yield "random order", np.random.default_rng(seed).random(len(test.labels)), 0.0, ()
    signed = np.concatenate([train.features, -train.features], axis=1)
    quality = [rg.metrics.ndcg(column, train.labels, offsets=train.offsets, k=10) for column in signed.T]
    chosen = int(np.argmax(quality))
    yield "best single feature", np.concatenate([test.features, -test.features], axis=1)[:, chosen], 0.0, ()
    begun = perf_counter()
    steps = rg.data.Preprocessing.parse(PREPROCESS).fit(train)
    weights, *_ = np.linalg.lstsq(steps.transform(train.features), train.labels - train.labels.mean(), rcond=None)
    yield "linear, least squares", steps.transform(test.features) @ weights, perf_counter() - begun, ()
    for name in LOSSES:
        begun = perf_counter()
        model = rg.training.train(
            rg.training.Settings(
                model="mlp:widths=128,dropout=0.2", loss=name, preprocess=PREPROCESS, lr=3e-3,
                epochs=epochs, patience=None, seed=seed, device="cpu",
            ),
            train,
            data.validation,
        )  # fmt: skip
        curve = tuple(row["nDCG@10"] for row in model.history)
        yield f"MLP, {name}", model.score(test.features, test.offsets), perf_counter() - begun, curve


def _row(name: str, scores: Any, test: "Dataset", best: float | None) -> DemoRow:
    import rankgrad as rg

    result = rg.metrics.evaluate(scores, test.labels, [METRIC], offsets=test.offsets)
    mean, (low, high) = result[METRIC], result.intervals[METRIC]
    return DemoRow(name, mean, low, high, mean / (mean if best is None else best))


def _cells(row: DemoRow) -> tuple[str, str, str, str, str]:
    interval, seconds = f"{row.low:.4f} to {row.high:.4f}", f"{row.seconds:.1f}" if row.seconds else ""
    return row.name, f"{row.mean:.4f}", interval, f"{row.share:.1%}", seconds


def _write(rows: list[DemoRow], data: "Splits", out: Path) -> Path:
    """Write one HTML page that works offline: the table, the means with their intervals, and the learning curves."""
    import html

    from rankgrad.atomic_files import write_bytes
    from rankgrad.experiments.report.page import policy

    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>" for row in rows)
    facts = f"Train: {html.escape(str(data.train))}. Test: {html.escape(str(data.test))}. One seed."
    parts = {"facts": facts, "picture": _picture(rows), "curves": _curves(rows), "body": body}
    page = _PAGE.format(metric=html.escape(METRIC), style=_STYLE, policy=policy(_STYLE), **parts)
    path = out / "report.html"
    write_bytes(path, page.encode())
    return path


def _picture(rows: list[DemoRow]) -> str:
    """Return an SVG picture: the means as dots, their intervals as lines."""
    from html import escape

    left, right, step = 190, 620, 30
    low, high = min(row.low for row in rows), max(row.high for row in rows)

    def x(value: float) -> float:
        return left + (value - low) / max(high - low, 1e-9) * (right - left)

    marks = []
    for place, row in enumerate(rows):
        y = 20 + step * place
        marks.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(row.name)}</text>')
        marks.append(f'<line x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y}" y2="{y}"/>')
        marks.append(f'<circle cx="{x(row.mean):.1f}" cy="{y}" r="5"/>')
        marks.append(f'<text x="{right + 14}" y="{y + 4}">{row.mean:.3f}</text>')
    return f'<svg viewBox="0 0 700 {step * len(rows) + 20}" role="img">{"".join(marks)}</svg>'


def _curves(rows: list[DemoRow]) -> str:
    """Return an SVG picture: the validation nDCG@10 after each epoch, one line per loss."""
    from html import escape

    trained = [row for row in rows if row.curve]
    values = [value for row in trained for value in row.curve]
    low, high, epochs = min(values), max(values), len(trained[0].curve)
    left, right, top, bottom = 60, 540, 14, 220

    def point(epoch: int, value: float) -> str:
        x = left + epoch / max(epochs - 1, 1) * (right - left)
        return f"{x:.1f},{bottom - (value - low) / max(high - low, 1e-9) * (bottom - top):.1f}"

    marks = [f'<text x="{left - 8}" y="{bottom}" text-anchor="end">{low:.3f}</text>']
    marks.append(f'<text x="{left - 8}" y="{top + 5}" text-anchor="end">{high:.3f}</text>')
    marks.append(f'<text x="{left}" y="{bottom + 22}">epoch 1</text>')
    marks.append(f'<text x="{right}" y="{bottom + 22}" text-anchor="end">{epochs}</text>')
    for place, (row, colour) in enumerate(zip(trained, ("#b8562b", "#3d8f5f", "#2b5cb8"), strict=True)):
        line = " ".join(point(epoch, value) for epoch, value in enumerate(row.curve))
        marks.append(f'<polyline points="{line}" stroke="{colour}"/>')
        marks.append(f'<text x="{right + 14}" y="{bottom - 60 + 22 * place}" fill="{colour}">{escape(row.name)}</text>')
    return f'<svg viewBox="0 0 700 250" role="img">{"".join(marks)}</svg>'


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c28; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } svg { width: 100%; font-size: 13px; }
svg line { stroke: #8aa4d6; stroke-width: 4; stroke-linecap: round; } svg circle { fill: #2b5cb8; }
svg polyline { fill: none; stroke-width: 2; }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rankgrad demo</title><style>{style}</style></head><body>
<h1>rankgrad demo</h1><p>{facts}</p>
<h2>{metric}, with 95% bootstrap intervals over the lists</h2>{picture}
<div class="wide"><table><thead><tr><th>ranker</th><th>mean</th><th>95% interval</th><th>share of achievable</th>
<th>seconds</th></tr></thead><tbody>{body}</tbody></table></div>
<h2>nDCG@10 on the validation lists, by epoch</h2>{curves}
<p>Lists without a relevant document are skipped. The labels were drawn from a utility plus noise. The achievable order
sorts by this utility, without the noise. No ranker can be better on average.</p></body></html>
"""
