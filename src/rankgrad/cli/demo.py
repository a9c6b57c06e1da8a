"""`rankgrad demo`: the main job on built-in data, from lists to a table and a page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np

    from rankgrad.data import Dataset, Splits

METRIC = "nDCG(empty='skip')@10"  # lists without a relevant document have nothing to show
LOSSES = ("mse", "softmax", "lambdaloss")


@dataclass(frozen=True)
class Row:
    """One line of the table: what ranked, how well, and how long it took to train."""

    name: str
    mean: float
    low: float
    high: float
    share: float  # of the achievable mean
    seconds: float = 0.0


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    lists: Annotated[int, typer.Option(min=30, help="Training lists to generate.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training lists.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the data and the rankers.")] = 0,
) -> None:
    """Generate lists, rank them by baselines and by three losses, print the table and write a report.

    The best achievable order of the generated lists is known, so each result is also a share of what can be had.

    Example: `rankgrad demo --lists 500 --out demo`
    """
    from rich.console import Console
    from rich.table import Table

    import rankgrad as rg

    console = Console()
    data = rg.data.synthetic(lists, seed=seed)
    console.print(f"data: {data.train}\n      {data.test}\n{METRIC} on test:", highlight=False)
    best = _row("achievable", data.test.best, data.test, None)
    rows = []
    for name, scores, seconds in _rankings(data, epochs, seed):
        rows.append(_row(name, scores, data.test, best.mean, seconds))
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


def _rankings(data: "Splits", epochs: int, seed: int) -> Iterator[tuple[str, "np.ndarray[Any, Any]", float]]:
    """Test scores of each ranker, best last: chance, the best single feature of train, a linear fit, and the losses."""
    import numpy as np

    import rankgrad as rg

    train, test = data.train, data.test
    yield "random order", np.random.default_rng(seed).random(len(test.labels)), 0.0
    signed = np.concatenate([train.features, -train.features], axis=1)
    quality = [rg.metrics.ndcg(column, train.labels, offsets=train.offsets, k=10) for column in signed.T]
    chosen = int(np.argmax(quality))
    yield "best single feature", np.concatenate([test.features, -test.features], axis=1)[:, chosen], 0.0
    steps = rg.data.Steps.parse("log1p,standardise").fit(train)
    ready = {part: steps.transform(getattr(data, part).features) for part in ("train", "validation", "test")}
    begun = perf_counter()
    weights, *_ = np.linalg.lstsq(ready["train"], train.labels - train.labels.mean(), rcond=None)
    yield "linear, least squares", ready["test"] @ weights, perf_counter() - begun
    for name in LOSSES:
        begun = perf_counter()
        scores = _train(getattr(rg.losses, name), data, ready, epochs, seed)
        yield f"MLP, {name}", scores, perf_counter() - begun


def _train(
    loss: Callable[..., Any], data: "Splits", ready: dict[str, Any], epochs: int, seed: int
) -> "np.ndarray[Any, Any]":
    """Test scores of a small MLP trained with this loss, at its best epoch on validation."""
    import numpy as np
    import torch

    import rankgrad as rg

    torch.manual_seed(seed)
    width = ready["train"].shape[1]
    model = torch.nn.Sequential(
        torch.nn.Linear(width, 128), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(128, 1)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    rng, batch = np.random.default_rng(seed), 64
    best, scores = -1.0, np.empty(0)
    train = data.train
    for _ in range(epochs):
        model.train()
        order = rng.permutation(len(train))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            rows = np.concatenate([np.arange(train.offsets[l], train.offsets[l + 1]) for l in chosen])
            offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(train.lengths[chosen])]))
            predicted = model(torch.from_numpy(ready["train"][rows])).squeeze(-1)
            optimiser.zero_grad()
            loss(predicted, torch.from_numpy(train.labels[rows]), offsets=offsets).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            judged = {part: model(torch.from_numpy(ready[part])).squeeze(-1).numpy() for part in ("validation", "test")}
        assert data.validation is not None
        value = float(
            rg.metrics.ndcg(judged["validation"], data.validation.labels, offsets=data.validation.offsets, k=10)
        )
        if value > best:
            best, scores = value, judged["test"]
    return scores


def _row(name: str, scores: Any, test: "Dataset", best: float | None, seconds: float = 0.0) -> Row:
    import rankgrad as rg

    result = rg.metrics.evaluate(scores, test.labels, [METRIC], offsets=test.offsets)
    mean, (low, high) = result[METRIC], result.intervals[METRIC]
    return Row(name, mean, low, high, mean / (mean if best is None else best), seconds)


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    interval, seconds = f"{row.low:.4f} to {row.high:.4f}", f"{row.seconds:.1f}" if row.seconds else ""
    return row.name, f"{row.mean:.4f}", interval, f"{row.share:.1%}", seconds


def _write(rows: list[Row], data: "Splits", out: Path) -> Path:
    """One page that works offline: the table, and the means with their intervals as a picture."""
    import html
    import os

    out.mkdir(parents=True, exist_ok=True)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>" for row in rows)
    facts = f"Train: {html.escape(str(data.train))}. Test: {html.escape(str(data.test))}. One seed."
    page = _PAGE.format(metric=html.escape(METRIC), facts=facts, picture=_picture(rows), body=body)
    aside, path = out / "report.html.new", out / "report.html"
    aside.write_text(page, encoding="utf-8")
    os.replace(aside, path)
    return path


def _picture(rows: list[Row]) -> str:
    """Means as dots with their intervals as lines, in SVG."""
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


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>rankgrad demo</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c28; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .35rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }}
th:first-child, td:first-child {{ text-align: left; }}
.wide {{ overflow-x: auto; }} svg {{ width: 100%; font-size: 13px; }}
svg line {{ stroke: #8aa4d6; stroke-width: 4; stroke-linecap: round; }} svg circle {{ fill: #2b5cb8; }}
</style></head><body>
<h1>rankgrad demo</h1><p>{facts}</p>
<h2>{metric}, with 95% bootstrap intervals over the lists</h2>{picture}
<div class="wide"><table><thead><tr><th>ranker</th><th>mean</th><th>95% interval</th><th>share of achievable</th>
<th>seconds</th></tr></thead><tbody>{body}</tbody></table></div>
<p>Lists without a relevant document are skipped. The achievable order ranks by the utility the labels were drawn from,
before noise: no ranker can expect more.</p></body></html>
"""
