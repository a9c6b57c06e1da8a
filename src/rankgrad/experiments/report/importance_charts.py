"""Draw charts of the importance of features and of the explanation of a list."""

from typing import Any

from rankgrad.experiments.report.charts import COLOURS, ROW_HEIGHT
from rankgrad.models.explanation import ListExplanation
from rankgrad.models.feature_importance import FeatureImportance


def importance_chart(found: FeatureImportance, top: int = 20) -> Any:
    """Draw a chart of the most important features, with intervals if `found` contains intervals.

    Args:
        found: importance of the features.
        top: maximum number of features.
    """
    rows = []
    for at in found.order(top):
        row = {"name": found.names[at], "value": float(found.values[at])}
        if found.low is not None and found.high is not None:
            row |= {"low": float(found.low[at]), "high": float(found.high[at])}
        rows.append(row)
    return _bars(rows, found.unit, intervals=found.low is not None)


def explanation_chart(found: ListExplanation, top: int = 20) -> Any:
    """Draw two charts of a list: contributions of features to a score difference, and the metric without a feature.

    Args:
        found: explanation of a list.
        top: maximum number of features.
    """
    first, second = found.documents
    title = f"contribution to the score of {first} minus the score of {second}"
    left = _bars([{"name": name, "value": value} for name, value in found.terms(top)], title)
    losses = [{"name": found.names[at], "value": float(found.losses[at])} for at in found.order(top)]
    return left | _bars(losses, f"loss of {found.metric} without a feature", names="names_of_losses")


def _bars(rows: list[dict[str, Any]], title: str, intervals: bool = False, names: str = "names") -> Any:
    """Draw a horizontal bar for each feature, in the order of the rows; negative values have another colour.

    `names` is the name of a parameter of the chart. This parameter contains the names of the features.
    """
    import altair as alt

    # Rows are found by their number, because two features may have the same name.
    numbered = [{"row": place, **row} for place, row in enumerate(rows)]
    axis = alt.Axis(labelExpr=f"{names}[datum.value]", labelLimit=260, ticks=False, domain=False, labelPadding=8)
    base = alt.Chart(alt.Data(values=numbered)).add_params(alt.param(name=names, value=[row["name"] for row in rows]))
    y = alt.Y("row:O", title=None, axis=axis)
    shown = [alt.Tooltip("name:N", title="feature"), alt.Tooltip("value:Q", format=".4~g")]
    x = alt.X("value:Q", title=_wrapped(title), axis=alt.Axis(labelOverlap="greedy", labelSeparation=6))
    colour = alt.ColorValue(COLOURS[0], condition={"test": "datum.value < 0", "value": COLOURS[1]})
    layers = [base.mark_bar(height=ROW_HEIGHT - 8).encode(x=x, y=y, color=colour, tooltip=shown)]
    if intervals:
        ends = base.mark_rule(strokeWidth=2, color="#555555").encode(x="low:Q", x2="high:Q", y=y, tooltip=shown)
        layers.append(ends)
    return alt.layer(*layers).properties(width=320, height=max(1, len(rows)) * ROW_HEIGHT)


def _wrapped(title: str) -> list[str]:
    """Return a chart title as lines of at most 48 letters. Letters that could end a string of Vega become spaces."""
    from textwrap import wrap

    safe = "".join(letter if letter.isalnum() or letter in "_.,:@+-=()' " else " " for letter in title)
    return wrap(safe, 48)
