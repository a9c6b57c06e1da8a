"""Draw pictures from the code: each loss as a function of one score, and Figures 1 and 2 of the NeuralNDCG paper."""

from typing import Any

import altair as alt
import torch
import vl_convert
from torch import Tensor

from rankgrad import losses, metrics

GRID = torch.linspace(-2, 6, 161, dtype=torch.float64)
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")

Row = dict[str, Any]


def moving(fixed: list[float], grid: Tensor = GRID) -> Tensor:
    """Return the scores of one list for each score of its last document, `(scores, n)`."""
    return torch.cat([torch.tensor(fixed, dtype=torch.float64).expand(len(grid), -1), grid[:, None]], -1)


def loss_picture(name: str, advice: dict[str, Any]) -> str:
    """Draw the loss of y = [2, 1, 0, 0, 0] as a function of the last score, and minus the exact metric."""
    loss = getattr(losses, name)
    loss = loss().double() if isinstance(loss, type) else loss
    scores, labels = moving([4, 1, 0, 0]), torch.tensor([2.0, 1, 0, 0, 0]).expand(len(GRID), -1)
    with torch.no_grad():
        values = loss(scores, labels, reduction="none", **advice.get("options", {}))
    metric = metrics.parse_metric(advice.get("shown", "nDCG"))
    truth = -metric.measure(scores, labels, reduction="none")
    if advice["family"] in ("relaxed metrics", "learned"):
        return svg(chart(rows(GRID, **{name: values, f"minus {metric}": truth}), "value"))
    top = chart(rows(GRID, **{name: values}), "loss", height=150)
    bottom = chart(rows(GRID, **{f"minus {metric}": truth}), "", height=60)
    return svg(alt.vconcat(top, bottom).resolve_scale(color="independent", strokeDash="independent"))


def figure_1() -> str:
    """Draw NeuralNDCG at temperature 1 with and without Sinkhorn scaling, and exact NDCG."""
    scores, labels = moving([4, 1, 0, 0]), torch.tensor([2.0, 1, 0, 0, 0]).expand(len(GRID), -1)
    lines = {
        "NDCG": metrics.ndcg(scores, labels, reduction="none"),
        "NeuralNDCG, scaled": -losses.neural_ndcg(scores, labels, reduction="none"),
        "NeuralNDCG, not scaled": -losses.neural_ndcg(scores, labels, sinkhorn_rounds=0, reduction="none"),
    }
    return svg(chart(rows(GRID, **lines), "value"))


def figure_2() -> str:
    """Draw NeuralNDCG at three temperatures, and exact NDCG."""
    grid = torch.linspace(-2, 8, 161, dtype=torch.float64)
    scores, labels = moving([1, 2, 3, 4], grid), torch.arange(1.0, 6).expand(len(grid), -1)
    lines = {"NDCG": metrics.ndcg(scores, labels, reduction="none")}
    for temperature in (0.1, 1.0, 10.0):
        value = -losses.neural_ndcg(scores, labels, temperature=temperature, reduction="none")
        lines[f"temperature {temperature:g}"] = value
    return svg(chart(rows(grid, **lines), "value"))


FIGURES = {"neuralndcg-figure1": figure_1, "neuralndcg-figure2": figure_2}


def rows(grid: Tensor, **lines: Tensor) -> list[Row]:
    # Four decimals are finer than a pixel, and the same on every machine.
    return [
        {"x": round(x, 3), "y": round(y, 4), "line": name}
        for name, values in lines.items()
        for x, y in zip(grid.tolist(), values.tolist(), strict=True)
    ]


def chart(data: list[Row], title: str, height: int = 220) -> alt.Chart:
    names = list(dict.fromkeys(row["line"] for row in data))
    # The exact metric is the reference: grey and dashed, with a step where documents change ranks.
    exact = [name for name in names if name.startswith("minus ") or name == "NDCG"]
    colours = iter(COLOURS)
    colour = alt.Scale(domain=names, range=["#888888" if name in exact else next(colours) for name in names])
    dash = alt.Scale(domain=names, range=[[4, 3] if name in exact else [1, 0] for name in names])
    return (
        alt.Chart(alt.Data(values=data))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("x:Q", title="x, the score that moves", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "y:Q", title=title or None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=max(3, height // 40))
            ),
            color=alt.Color("line:N", scale=colour, title=None),
            strokeDash=alt.StrokeDash("line:N", scale=dash, title=None),
        )
        .properties(width=380, height=height)
    )


def svg(picture: Any) -> str:
    return str(vl_convert.vegalite_to_svg(picture.to_dict())) + "\n"
