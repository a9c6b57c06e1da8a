"""Page with the study of missing values, and its picture."""

from pathlib import Path
from typing import Any

from pages.measurements import read, where
from pages.pictures import svg
from pages.templates import fill, paragraph, table

from rankgrad.data.preprocessing.missing_values import INDICATED

HERE = Path(__file__).parent
LARGE = "network, indicator with the value 1"
Rows = dict[tuple[str, str, str, float], dict[str, Any]]  # by source, ranker, cause and share of missing values


def page() -> str:
    """Return the page."""
    found = read(HERE / "results.json")
    rows = _by_key(found)
    return fill(HERE / "template.md", study=_study(found), findings=_findings(rows), values=_table(rows))


def pictures() -> dict[str, str]:
    """Return the picture by its name: nDCG@10 against the share of missing values, with intervals."""
    import altair as alt

    from rankgrad.experiments.report.charts import COLOURS

    found = [row for row in read(HERE / "results.json")["rows"] if row["ranker"] != LARGE]
    names = list(dict.fromkeys(row["ranker"] for row in found))
    values = [
        {key: row[key] for key in ("source", "cause", "ranker", "ndcg", "low", "high")}
        | {"share": 100 * row["share"] + 0.5 * (names.index(row["ranker"]) - 2)}  # so that intervals are visible
        for row in found
    ]
    colour = alt.Color(
        "ranker:N", title=None, scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), sort=names
    )
    base = alt.Chart().encode(x=alt.X("share:Q", title="missing values (%)"), color=colour)
    y = alt.Y("ndcg:Q", title="nDCG@10", scale=alt.Scale(zero=False))
    lines = base.mark_line(strokeWidth=1.4).encode(y=y)
    bars = base.mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q")
    chart = (
        alt.layer(lines, bars, data=alt.Data(values=values))
        .properties(width=260, height=170)
        .facet(column=alt.Column("cause:N", title=None), row=alt.Row("source:N", title=None, sort=["generated"]))
        .resolve_scale(y="independent")
        .configure_legend(orient="bottom")
    )
    return {"missing-values.svg": svg(chart)}


def _by_key(found: dict[str, Any]) -> Rows:
    return {(row["source"], row["ranker"], row["cause"], row["share"]): row for row in found["rows"]}


def _study(found: dict[str, Any]) -> str:
    return paragraph(
        f"nDCG@10 on test lists with a relevant document: means over {found['seeds']} seeds, with 95% t intervals. "
        f"Values are removed from generated lists ({found['lists']} for training, {found['features']} features) and "
        "from MQ2008 (a seed is a fold): at random, or large values more often, so that a missing value "
        f"says something. All rankers are trained with `{found['loss']}`. `python studies/missing-values/measure.py`; "
        f"{where(found)}."
    )


def _findings(rows: Rows) -> str:
    """Return one sentence per finding, computed from the rows."""
    lines = []
    for source, cause in dict.fromkeys((key[0], key[2]) for key in rows):
        said = [
            f"{_gap(rows, source, 'network, indicator', 'network, mean', cause, share):+.3f} ({share:.0%})"
            for share in sorted({key[3] for key in rows} - {0.0})
        ]
        lines.append(f"- {source}, {cause}: `indicator` minus `mean` is {', '.join(said)}.")
    gaps = [
        _gap(rows, source, LARGE, "network, indicator", cause, share)
        for source, cause, share in dict.fromkeys((key[0], key[2], key[3]) for key in rows if key[3] > 0)
    ]
    ends = f"{min(gaps):+.3f} to {max(gaps):+.3f}"
    lines.append(f"- Indicators with the value 1 instead of {INDICATED:g} change nDCG@10 by {ends}.")
    return "\n".join(lines)


def _gap(rows: Rows, source: str, first: str, second: str, cause: str, share: float) -> float:
    a, b = (rows[source, name, cause, share]["ndcg"] for name in (first, second))
    return float(a - b)


def _table(rows: Rows) -> str:
    shares = sorted({key[3] for key in rows})
    lines = [
        [source, cause, ranker, *(_cell(rows[source, ranker, cause, share]) for share in shares)]
        for source, ranker, cause in dict.fromkeys(key[:3] for key in rows)
    ]
    return table(["lists", "missing", "ranker", *(f"{share:.0%}" for share in shares)], lines)


def _cell(row: dict[str, Any]) -> str:
    return f"{row['ndcg']:.3f} ± {(row['high'] - row['low']) / 2:.3f}"
