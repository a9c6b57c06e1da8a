"""Page about the scalars of LearnDCG, and its pictures, from the measurements of `benchmarks/learndcg.py`."""

import re
from typing import Any

from .measurements import read, where
from .templates import fill, table

PICTURES = ("learndcg-noise", "learndcg-scalars")
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")
SYMBOLS = {"gain_base": "b_g", "discount_base": "b_d", "alpha": "alpha"}


def page() -> str:
    """Return the page."""
    noise, curves, cost = (read(f"learndcg-{name}") for name in ("noise", "curves", "cost"))
    return fill("learndcg", **_noise(noise), **_curves(curves), **_spread(curves), **_cost(cost))


def _noise(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the printed discount."""
    ends, run = [row["discount_base"][-1] for row in found["rows"]], found["run"]
    return {
        "noise_gradient": f"{found['gradient']:.0e}",
        "noise_seeds": str(len(ends)),
        "noise_lr": f"{run['loss_lr']:g}",
        "noise_batch": str(run["batch_size"]),
        "noise_epochs": str(run["epochs"]),
        "noise_least": f"{min(ends):.2f}",
        "noise_greatest": f"{max(ends):.2f}",
        "noise_machine": where(found),
    }


def _curves(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about joint minimisation."""
    run, rows, means = found["run"], [], {}
    for name, loss in found["losses"].items():
        rows_of_loss = [row for row in found["rows"] if row["name"] == name]
        means[name] = sum(row["nDCG@10"] for row in rows_of_loss) / len(rows_of_loss)
        rows_of_loss = [row for row in rows_of_loss if "alpha" in row]
        if rows_of_loss:
            ends = [[row[each][-1] for row in rows_of_loss] for each in SYMBOLS]
            rows.append([name, f"`{loss}`", *(f"{min(end):.2f} to {max(end):.2f}" for end in ends)])
    return {
        "curves_epochs": str(run["epochs"]),
        "curves_seeds": str(found["seeds"]),
        "curves_model": run["model"],
        "curves_lr": f"{run['lr']:g}",
        "curves_loss_lr": f"{run['loss_lr']:g}",
        "curves_batch": str(run["batch_size"]),
        "curves_machine": where(found),
        "ends_table": table(["scalars", "loss", *SYMBOLS.values()], rows),
        "test_means": ", ".join(f"{mean:.2f} ({name})" for name, mean in means.items()),
    }


def _spread(found: dict[str, Any]) -> dict[str, str]:
    """Return the mean distances between the scalars of two runs, of the same fold and of different folds."""
    runs = [row for row in found["rows"] if row["name"].startswith("heldout")]
    pairs = [(one, two) for place, one in enumerate(runs) for two in runs[:place]]
    early = 10 // found["every"]
    same, other, ranges = [], [], []
    for scalar, symbol in SYMBOLS.items():
        gaps: tuple[list[float], list[float]] = ([], [])
        for one, two in pairs:
            gaps[one["fold"] != two["fold"]].append(abs(one[scalar][-1] - two[scalar][-1]))
        for phrases, part in zip((same, other), gaps, strict=True):
            phrases.append(f"{sum(part) / len(part):.2f} in {symbol}")
        values = [run[scalar][early] for run in runs]
        ranges.append(f"{symbol} {min(values):.2f} to {max(values):.2f}")
    return {
        "early_ranges": ", ".join(ranges),
        "same_fold_gaps": ", ".join(same),
        "other_fold_gaps": ", ".join(other),
    }


def _cost(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the cost of an epoch."""
    rows = [[row["model"], row["name"], f"{row['seconds']:.3f} s", f"{row['ratio']:.2f}"] for row in found["rows"]]
    return {
        "cost_batch": str(found["run"]["batch_size"]),
        "cost_rounds": str(found["rounds"]),
        "cost_machine": where(found),
        "cost_table": table(["ranker", "scalars", "time per epoch", "ratio to fixed"], rows),
    }


def pictures() -> dict[str, str]:
    """Return the pictures by their path below `docs`."""
    noise, curves = read("learndcg-noise"), read("learndcg-curves")
    walk = [
        {"epoch": epoch * noise["every"], "value": value, "way": "as printed, in float32", "run": row["seed"]}
        for row in noise["rows"]
        for epoch, value in enumerate(row["discount_base"])
    ]
    still = [{"epoch": epoch, "value": 2.0, "way": "rankgrad", "run": 0} for epoch in (0, noise["run"]["epochs"])]
    drawn = {PICTURES[0]: _lines([*walk, *still], "b_d", 420, 200)}
    panels = []
    for scalar, symbol in SYMBOLS.items():
        rows = [
            {
                "epoch": epoch * curves["every"],
                "value": value,
                "way": row["name"],
                "run": row["fold"],
            }
            for row in curves["rows"]
            if row["seed"] == 0
            for epoch, value in enumerate(row.get(scalar, ()))
        ]
        panels.append(_lines(rows, symbol, 210, 200))
    import altair as alt

    drawn[PICTURES[1]] = alt.hconcat(*panels).configure_legend(orient="bottom")
    return {f"figures/{name}.svg": svg(picture) for name, picture in drawn.items()}


def _lines(rows: list[dict[str, Any]], title: str, width: int, height: int) -> Any:
    import altair as alt

    ways = list(dict.fromkeys(row["way"] for row in rows))
    colour = alt.Scale(domain=ways, range=list(COLOURS[: len(ways)]))
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.2, opacity=0.7, aria=False)
        .encode(
            x=alt.X("epoch:Q", title="epoch", scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color("way:N", scale=colour, title=None),
            detail="run:N",
        )
        .properties(width=width, height=height)
    )


def svg(picture: Any) -> str:
    """Return a picture as SVG without invisible parts."""
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(picture.to_dict())) + "\n"
    # Invisible: digits after tenths of a pixel, the empty frame of each line, and attributes with their default.
    for default in (' opacity="1"', ' aria-hidden="true"', ' pointer-events="none"'):
        drawn = drawn.replace(default, "")
    drawn = re.sub(r'<path class="(?:fore|back)ground" d="[^"]*"(?: display="none")?/>', "", drawn)
    # Only inside tags: the texts of the picture keep their digits.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag[0]), drawn)
