"""Page about the scalars of LearnDCG, and its pictures, from the measurements of `measure.py`."""

from pathlib import Path
from typing import Any

from pages.measurements import read, where
from pages.pictures import svg
from pages.templates import fill, table

HERE = Path(__file__).parent
PICTURES = ("noise", "scalars")
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")
FIGURE_2 = (1.80, 2.15)  # b_d in the paper's Figure 2, over five folds
PAPER_RATE = 0.001
SYMBOLS = {"gain_base": "b_g", "discount_base": "b_d", "alpha": "alpha"}


def page() -> str:
    """Return the page."""
    noise, frozen, curves, cost = (read(HERE / f"{name}.json") for name in ("noise", "frozen", "curves", "cost"))
    return fill(
        HERE / "template.md", **_noise(noise), **_frozen(frozen), **_curves(curves), **_spread(curves), **_cost(cost)
    )


def _noise(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the printed discount."""
    rows, moved = [], []
    for walk in found["walks"]:
        last = [row["discount_base"][-1] for row in walk["rows"]]
        moved.append(max(abs(value - 2) for row in walk["rows"] for value in row["discount_base"]))
        span = f"{min(last):.2f} to {max(last):.2f}"
        numbers = [f"{walk['loss_lr']:g}", f"{walk['steps']:,}", str(len(walk["rows"]))]
        rows.append([*numbers, span, f"{moved[-1]:.2f}"])
    slow = found["walks"][-1]
    return {
        "noise_gradient": f"{max(walk['gradient'] for walk in found['walks']):.0e}",
        "noise_batch": str(found["run"]["batch_size"]),
        "noise_table": table(
            ["rate of the scalars", "steps", "seeds", "b_d at the end", "largest distance from 2"], rows
        ),
        "noise_verdict": _verdict(slow["loss_lr"], moved, len(slow["rows"])),
        "noise_machine": where(found),
    }


def _verdict(rate: float, moved: list[float], seeds: int) -> str:
    """Return whether the two walks of b_d explain the range of the paper's Figure 2."""
    needed = max(abs(end - 2) for end in FIGURE_2)
    fast, slow = (f"{each:.2f}" for each in moved)
    if moved[1] >= needed:
        return f"At the paper's rate the random walk moves b_d by up to {slow}, as far as in Figure 2."
    return (
        f"At the paper's rate ({rate:g}) the random walk moved b_d by at most {slow} in {seeds} walks; in Figure 2 it "
        f"moves by up to {needed:.2f}. So at the paper's settings the random walk alone did not reach the range of "
        f"Figure 2, but {seeds} walks cannot exclude it. At ten times the rate it moved by up to {fast}. The "
        "derivative of the printed loss is 0, so the rest must have another cause, for example another rate, more "
        "steps, or code that differs from the printed equations. We cannot tell which."
    )


def _frozen(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the loss with frozen scores."""
    rows = []
    for row in found["rows"]:
        values = ", ".join(
            f"{value:g}: {mean:.3f}" for value, mean in zip(row["values"], row["surrogate"], strict=True)
        )
        count = f"{row['higher at the end']} of {row['runs']}"
        rows.append(
            [row["data"], SYMBOLS[row["scalar"]], values, f"{row['surrogate'][-1] - row['surrogate'][0]:+.3f}", count]
        )
    every = all(row["higher at the end"] == row["runs"] for row in found["rows"])
    gains = [row["surrogate"] for row in found["rows"] if row["scalar"] == "gain_base"]
    sets = [row["data"] for row in found["rows"] if row["scalar"] == "gain_base"]
    changes = ", ".join(f"{each[0]:.3f} to {each[-1]:.3f} on {name}" for name, each in zip(sets, gains, strict=True))
    begin, end = (next(row["values"][i] for row in found["rows"] if row["scalar"] == "gain_base") for i in (0, -1))
    how = "In all runs, each of the three changes raises" if every else "In most runs, these changes raise"
    return {
        "frozen_table": table(["data", "scalar", "value: smooth NDCG", "last - first", "runs in which it rises"], rows),
        "frozen_verdict": (
            f"{how} the smooth NDCG without a better order; as b_g falls from {begin:g} to {end:g}: {changes}. So "
            "minimising the loss over its scalars favours an easier metric."
        ),
        "frozen_seeds": str(found["seeds"]),
        "frozen_machine": where(found),
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
        "curves_ratio": f"{run['loss_lr'] / PAPER_RATE:g}",
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
    noise, curves = read(HERE / "noise.json"), read(HERE / "curves.json")
    walks = []
    for walk in noise["walks"]:
        step = walk["steps"] / (len(walk["rows"][0]["discount_base"]) - 1)
        rows = [
            {"step": place * step, "value": value, "way": f"rate {walk['loss_lr']:g}", "run": row["seed"]}
            for row in walk["rows"]
            for place, value in enumerate(row["discount_base"])
        ]
        still = [{"step": place, "value": 2.0, "way": "rankgrad", "run": 0} for place in (0, walk["steps"])]
        walks.append(_lines([*rows, *still], "b_d", 260, 200, x="step"))
    import altair as alt

    # Both pictures have the same vertical axis.
    drawn = {PICTURES[0]: alt.hconcat(*walks).resolve_scale(y="shared", color="independent")}
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
    drawn[PICTURES[1]] = alt.hconcat(*panels).configure_legend(orient="bottom")
    return {f"{name}.svg": svg(picture) for name, picture in drawn.items()}


def _lines(rows: list[dict[str, Any]], title: str, width: int, height: int, x: str = "epoch") -> Any:
    import altair as alt

    ways = list(dict.fromkeys(row["way"] for row in rows))
    colour = alt.Scale(domain=ways, range=list(COLOURS[: len(ways)]))
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.2, opacity=0.7, aria=False)
        .encode(
            x=alt.X(f"{x}:Q", title=x, scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color("way:N", scale=colour, title=None),
            detail="run:N",
        )
        .properties(width=width, height=height)
    )
