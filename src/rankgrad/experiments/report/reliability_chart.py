"""Draw a reliability plot: the mean probability and the share of relevant documents of each bin."""

from collections.abc import Mapping, Sequence
from typing import Any

from rankgrad.experiments.report.charts import COLOURS
from rankgrad.models.reliability import Reliability

COLUMNS, SIDE = 3, 260  # plots per row; width and height of a plot, in pixels
SIGMOID = "sigmoid of the score"  # name of the probabilities of a model that is not calibrated


def reliability_chart(measured: Mapping[str, Sequence[Reliability]]) -> Any:
    """Draw one plot per event, such as `label > 0`. On the diagonal, both values of a bin are equal.

    Args:
        measured: dictionary. A key names probabilities, such as `calibrated`; its value has one result per event.
    """
    import altair as alt

    events = list(dict.fromkeys(each.event for results in measured.values() for each in results))
    plots = [_plot(event, measured) for event in events]
    return alt.concat(*plots, columns=COLUMNS)


def _plot(event: str, measured: Mapping[str, Sequence[Reliability]]) -> Any:
    import altair as alt

    rows, names = [], []
    for name, results in measured.items():
        for each in results:
            if each.event != event:
                continue
            names.append(f"{name}: ECE {each.ece:.3f}")
            rows += [{"name": names[-1], **row} for row in each.to_dict()["bins"]]
    scale = alt.Scale(domain=[0, 1])
    x = alt.X("predicted:Q", title="mean probability of the bin", scale=scale)
    y = alt.Y("observed:Q", title=f"share of documents with {event}", scale=scale)
    legend = alt.Legend(title=None, orient="top", direction="vertical", labelLimit=SIDE)
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=[*COLOURS[: len(names)]]), legend=legend)
    shown = [alt.Tooltip(f"{key}:Q", format=".3f") for key in ("predicted", "observed", "low", "high")]
    shown.append(alt.Tooltip("counts:Q", title="documents"))
    diagonal = alt.Chart(alt.Data(values=[{"at": 0}, {"at": 1}])).mark_line(color="#888888", strokeDash=[4, 4])
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, color=colour, tooltip=shown)
    layers = (
        diagonal.encode(x=alt.X("at:Q", scale=scale), y=alt.Y("at:Q", scale=scale)),
        base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(point={"size": 40}, strokeWidth=1.5).encode(y=y, order="predicted:Q"),
    )
    return alt.layer(*layers).properties(width=SIDE, height=SIDE)
