"""Draw charts with Altair, for the page and the figures of a report. On the page, readers select what charts show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# Okabe and Ito's colours, which colour-blind people can distinguish. Black and yellow are left out, because they are
# hard to see on a dark or a light background.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080")
DASHES = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2), (1, 3))
DASHED = ("solid", "dashed", "dotted", "dash-dotted", "sparsely dotted")  # names of the dash patterns
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross")
PARAMETERS = {"gain_base": "gain base b_g", "discount_base": "discount base b_d", "alpha": "sharpness alpha"}
FIGURE = {"width": 520, "height": 300}
ROW_HEIGHT = 22  # height of a row of the overview, in pixels
# Vega rounds the tick of an axis with a single value to an integer.
_ONE_VALUE = "domain('y')[0] === domain('y')[1] ? format(datum.value, '.4~g') : datum.label"


@dataclass(frozen=True)
class ChartSelection:
    """Data that a chart shows at first; readers of the page can select other data."""

    data: str
    model: str
    metric: str
    losses: tuple[str, ...]  # all losses of the study: a loss has the same colour in all charts
    kind: str = "loss"  # kind of the rows in tooltips: loss, ranker or trial
    rows: Sequence[dict[str, Any]] | None = None  # rows of a figure; None on a page (its program supplies the rows)


def styles(losses: Sequence[str]) -> list[tuple[str, tuple[int, ...], str]]:
    """Return the colour, dash and shape of each loss in charts. Dash and shape change after all colours are used."""
    n = len(COLOURS)
    return [(COLOURS[i % n], DASHES[i // n % len(DASHES)], SHAPES[i // n % len(SHAPES)]) for i in range(len(losses))]


def overview(
    choice: ChartSelection,
    every_model: bool = True,
    digits: int = 4,
    rows: str = "overview",
    measured: str = "mean and 95% interval",
    label_limit: int = 340,
) -> Any:
    """Draw the chart `overview`: the mean of each row with its interval, best row first.

    Args:
        every_model: if False, only the rows of the selected model are drawn.
        digits: number of digits of the means after the decimal point.
        rows: name of the rows.
        measured: meaning of points and intervals.
        label_limit: maximum width of the names, in pixels.
    """
    import altair as alt

    base = _start(rows, choice, every_model).transform_filter("datum.metric == of_metric")
    axis = alt.Axis(labelLimit=label_limit, ticks=False, domain=False, labelPadding=8)
    y = alt.Y("row:N", title=None, sort=alt.EncodingSortField("place", op="min"), axis=axis)
    title = measured if choice.rows is None else f"{choice.metric}, {measured}"
    scale = alt.Scale(zero=False, nice=False, padding=12)
    x = alt.X("value:Q", title=title, scale=scale)
    low = alt.X("low:Q", title=title, scale=scale)
    tooltip = _tooltip(choice, "row", value="mean", low="low end", high="high end")
    rules = base.mark_rule(strokeWidth=5, strokeCap="round", color=COLOURS[5]).encode(
        x=low, x2=alt.X2("high:Q"), y=y, opacity=_opacity(0.6), tooltip=tooltip
    )
    points = base.mark_point(filled=True, size=80, color=COLOURS[0], opacity=1).encode(
        x=x, y=y, opacity=_opacity(), tooltip=tooltip
    )
    # The numbers are in a column to the right of the chart.
    numbers = base.mark_text(align="left", fontSize=12, x={"expr": "width + 8"}).encode(
        y=y, text=alt.Text("value:Q", format=f".{digits}f"), opacity=_opacity()
    )
    # The page sets the height by the number of rows that it shows.
    shown = [row for row in choice.rows or () if row["metric"] == choice.metric]
    return alt.layer(rules, points, numbers).properties(height=max(1, len(shown)) * ROW_HEIGHT)


def trials(choice: ChartSelection, setting: str, metric: str, scale: str, step: str = "epoch") -> Any:
    """Draw a chart of one setting and the validation metric, one point per trial.

    The colour of a point shows how long the trial was trained.

    Args:
        scale: scale of the setting: `linear`, `log`, or `names` for a setting that is not a number.
    """
    import altair as alt

    title = _title(setting)
    if scale == "names":
        x: Any = alt.X("text:N", title=title, axis=alt.Axis(labelAngle=0, labelLimit=140))
    else:
        # A log scale has no zero.
        kept = alt.Scale(type="log", nice=False, padding=16) if scale == "log" else alt.Scale(zero=False, padding=16)
        number = {"format": "~e"} if scale == "log" else {}  # 1e-6 is shorter than 0.000001
        axis: dict[str, Any] = {"labelOverlap": "greedy", "labelSeparation": 8, "labelBound": True, **number}
        x = alt.X("number:Q", title=title, scale=kept, axis=axis)
    return (
        _start("trials", choice)
        .add_params(alt.param(name="of_setting", value=setting))
        .transform_filter("datum.setting == of_setting")
        .mark_point(filled=True, size=70)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=_title(f"{metric}, validation"), scale=alt.Scale(zero=False)),
            color=alt.Color(
                "epochs:O", title=f"trained for {step}s", scale=alt.Scale(range=list(COLOURS)),
                legend=alt.Legend(orient="bottom"),
            ),
            opacity=_opacity(0.85),
            tooltip=_tooltip(choice, "loss", "text", value=metric, epochs=f"{step}s"),
        )
    )  # fmt: skip


def curves(
    choice: ChartSelection,
    metric: str,
    dots: bool,
    step: str = "epoch",
    rows: str = "curves",
    shown: str = "best",
) -> Any:
    """Draw learning curves: a value over epochs or trees, one line per loss; with `dots`, also draw the points.

    Args:
        metric: name of the value.
        rows: name of the rows.
        shown: column of the rows that is shown at first, `best` (best so far) or `own` (value at the epoch).
    """
    import altair as alt

    value = alt.param(name="shown", value=shown)
    return (
        _start(rows, choice)
        .add_params(value)
        .transform_calculate(value="datum[shown]")
        .mark_line(strokeWidth=2, point={"size": 25} if dots else False)
        .encode(
            x=alt.X("epoch:Q", title=_title(step), axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("value:Q", title=_title(metric), axis=alt.Axis(labelExpr=_ONE_VALUE), scale=alt.Scale(zero=False)),
            tooltip=_tooltip(choice, "loss", epoch=step, value=metric, runs="runs not yet stopped"),
            **_by_loss(choice, "dash"),
        )
    )


def progress(choice: ChartSelection, metric: str) -> Any:
    """Draw a chart of the best value of an automatic search over time."""
    import altair as alt

    return (
        _start("progress", choice)
        .mark_line(strokeWidth=2, interpolate="step-after", point={"size": 40}, color=COLOURS[0])
        .encode(
            x=alt.X("seconds:Q", title="seconds since the search began", scale=alt.Scale(zero=True)),
            y=alt.Y("value:Q", title=_title(metric), scale=alt.Scale(zero=False, padding=12)),
            tooltip=_tooltip(choice, seconds="seconds", value=metric),
        )
    )


def learned(
    choice: ChartSelection, parameter: str, dots: bool, folds: Sequence[str], losses: Sequence[str], step: str = "epoch"
) -> Any:
    """Draw a chart of a learned parameter over epochs or trees, one line per fold and seed.

    The colour shows the fold, and the dash shows the loss.
    """
    import altair as alt

    legend = alt.Legend(orient="bottom") if len(folds) > 1 else None
    # The text of the page names the dash of each loss.
    dashed = alt.Legend(title=None) if choice.rows is not None and len(losses) > 1 else None
    colours = alt.Scale(domain=list(folds), range=[COLOURS[i % len(COLOURS)] for i in range(len(folds))])
    # The prefix is needed, because the name of a parameter may equal a property that all JavaScript objects have.
    title = PARAMETERS.get(parameter, f"parameter {parameter}")
    dashes = alt.Scale(domain=list(losses), range=[DASHES[i % len(DASHES)] for i in range(len(losses))])
    return (
        _start("learned", choice)
        .add_params(alt.param(name="of_parameter", value=parameter))
        .transform_filter("datum.parameter == of_parameter")
        .mark_line(strokeWidth=1.5, point={"size": 20} if dots else False)
        .encode(
            x=alt.X("epoch:Q", title=_title(step), axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("value:Q", title=_title(title), axis=alt.Axis(labelExpr=_ONE_VALUE), scale=alt.Scale(zero=False)),
            color=alt.Color("fold:N", title="fold", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("loss:N", scale=dashes, legend=dashed),
            detail=alt.Detail("seed:N"),
            opacity=_opacity(0.8),
            tooltip=_tooltip(choice, "loss", "fold", "seed", epoch=step, value=title),
        )
    )


def cost(choice: ChartSelection, spread: bool = True) -> Any:
    """Draw a chart of training time and test metric, one point per loss; with `spread`, bars show the spread."""
    import altair as alt

    base = _start("cost", choice).transform_filter("datum.metric == of_metric")
    x = alt.X(
        "seconds:Q",
        title="seconds of training, mean of the final runs",
        scale=alt.Scale(type="log", nice=False, padding=24),
        axis=alt.Axis(labelOverlap="greedy", labelSeparation=6, labelBound=True),
    )
    up = alt.Scale(zero=False, padding=12)
    title = "selected test metric" if choice.rows is None else f"{choice.metric}, test"
    y = alt.Y("value:Q", title=title, scale=up)
    looks = _by_loss(choice, "shape")
    ends = {"low": "metric - spread", "high": "metric + spread"} if spread else {}
    tooltip = _tooltip(choice, "loss", "model", seconds="seconds", value="metric", **ends)
    bars = base.mark_rule(strokeWidth=1.5).encode(
        x=x,
        y=alt.Y("low:Q", title=title, scale=up),
        y2=alt.Y2("high:Q"),
        color=looks["color"],
        opacity=looks["opacity"],
    )
    points = base.mark_point(filled=True, size=110).encode(x=x, y=y, tooltip=tooltip, **looks)
    sides = ("name", {"align": "left", "dx": 9}), ("name_left", {"align": "right", "dx": -9})
    names = [
        base.mark_text(dy=-7, fontSize=11, **side).encode(x=x, y=y, text=alt.Text(f"{name}:N"), opacity=_opacity())
        for name, side in sides
    ]
    return alt.layer(*([bars] if spread else []), points, *names)


def sensitivity(choice: ChartSelection, metric: str) -> Any:
    """Draw a chart of the learning rate and the validation metric, one line per loss."""
    import altair as alt

    base = _start("sensitivity", choice).encode(
        x=alt.X(
            "lr:Q",
            title="learning rate",
            scale=alt.Scale(type="log", nice=False, padding=16),
            axis=alt.Axis(format="~g", labelOverlap="greedy", labelSeparation=6, labelBound=True),
        ),
        y=alt.Y("value:Q", title=f"{metric}, validation", scale=alt.Scale(zero=False)),
    )
    tooltip = _tooltip(choice, "loss", lr="learning rate", value=metric, low="worst run", high="best run", runs="runs")
    lines = base.mark_line(strokeWidth=2).encode(**_by_loss(choice, "dash"))
    return alt.layer(lines, base.mark_point(filled=True, size=60).encode(tooltip=tooltip, **_by_loss(choice, "shape")))


def gains(choice: ChartSelection) -> Any:
    """Draw a chart of the difference between two models for each query, sorted; the page computes the rows."""
    import altair as alt

    return (
        alt.Chart(_data("gains", choice))
        .mark_bar(cursor="pointer")
        .encode(
            x=alt.X(
                "place:Q",
                title="queries, sorted by difference",
                axis=alt.Axis(tickMinStep=1, grid=False),
                scale=alt.Scale(nice=False),
            ),
            x2=alt.X2("next:Q"),
            y=alt.Y("gain:Q", title="B - A"),
            y2=alt.Y2Datum(0),
            color=alt.ColorValue(COLOURS[0], condition={"test": "datum.gain < 0", "value": COLOURS[1]}),
            tooltip=_tooltip(choice, "query", a="A", b="B", gain="B - A"),
        )
        .properties(**_size(choice))
    )


def save(chart: Any, stem: Any) -> None:
    """Write a chart to the files `stem.svg` and `stem.png`."""
    chart.save(f"{stem}.svg")
    chart.save(f"{stem}.png", scale_factor=2)


@cache
def library() -> str:
    """Return one script that draws charts: Vega, Vega-Lite and Vega-Embed, in the versions that Altair needs.

    The script defines `vegaEmbed`.
    """
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version))


def _start(name: str, choice: ChartSelection, every_model: bool = False) -> Any:
    import altair as alt

    model = "" if every_model else " && datum.model == of_model"
    given = {"of_data": choice.data, "of_model": choice.model, "of_metric": choice.metric, "picked": []}
    return (
        alt.Chart(_data(name, choice))
        .add_params(*(alt.param(name=key, value=value) for key, value in given.items()))
        .transform_filter(f"datum.data == of_data{model}")
        .properties(**_size(choice))
    )


def _data(name: str, choice: ChartSelection) -> Any:
    import altair as alt

    return alt.NamedData(name=name) if choice.rows is None else alt.Data(values=list(choice.rows))


def _size(choice: ChartSelection) -> dict[str, Any]:
    return {"width": "container", "height": 320} if choice.rows is None else FIGURE


def _by_loss(choice: ChartSelection, also: str) -> dict[str, Any]:
    """Return the colour and the dash or shape of each loss, as encodings of a chart.

    A figure has a legend. On a page, all charts share one legend.
    """
    import altair as alt

    domain, looks = list(choice.losses), styles(choice.losses)
    legend = None if choice.rows is None else alt.Legend(title=None)
    color = alt.Color("loss:N", scale=alt.Scale(domain=domain, range=[look[0] for look in looks]), legend=legend)
    kind, place = (alt.StrokeDash, 1) if also == "dash" else (alt.Shape, 2)
    scale = alt.Scale(domain=domain, range=[look[place] for look in looks])
    second = "strokeDash" if also == "dash" else "shape"
    return {"color": color, second: kind("loss:N", scale=scale, legend=legend), "opacity": _opacity()}


def _opacity(full: float = 1.0) -> Any:
    import altair as alt

    chosen = "length(picked) == 0 || indexof(picked, datum.loss) >= 0"
    # Altair takes much longer to convert the result of `alt.condition` to the same object.
    return alt.OpacityValue(0.1, condition={"test": chosen, "value": full})


def _tooltip(choice: ChartSelection, *names: str, **titled: str) -> list[Any]:
    import altair as alt

    plain = [alt.Tooltip(f"{name}:N", title=choice.kind if name in ("loss", "row") else name) for name in names]
    whole = {"runs", "epoch", "epochs"}
    return plain + [
        alt.Tooltip(f"{name}:Q", title=_title(title), format="d" if name in whole else ".4~g")
        for name, title in titled.items()
    ]


def _title(text: str) -> str:
    """Replace characters of a chart title that could end a string in Vega; Vega-Lite does not escape titles."""
    return "".join(letter if letter.isalnum() or letter in "_.,:@+-=()' " else " " for letter in text)
