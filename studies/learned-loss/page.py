"""Page about the study "When does a learned loss help?", from `results.json.xz`."""

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pages.comparisons import p_value
from pages.measurements import where
from pages.pictures import svg
from pages.templates import fill, table

HERE = Path(__file__).parent
STANDARD = "standard"
FLATTER = ("any grade above 0", "gain y")
STEEPER = ("gain 8^y - 1", "grade 4 only")
DISCOUNTS = ("discount flat", "discount rank")
GAINS = (*FLATTER, STANDARD, *STEEPER)
JUDGED = "held out, judge"
LEARNED = ("joint", "joint, curved", "held out", JUDGED)
NAMES = {
    "fixed": "fixed",
    "joint": "joint, as printed",
    "joint, curved": "joint, curved",
    "held out": "held out, standard NDCG",
    JUDGED: "held out, judging metric",
    "chosen": "chosen by validation",
    "exact": "exact",
    "softmax": "softmax",
    "lambdaloss": "LambdaLoss",
}
HEADS = {STANDARD: "standard NDCG", "any grade above 0": "gain 1 above grade 0", "grade 4 only": "gain 1 for grade 4"}
DRAWN = ("fixed", "joint, curved", JUDGED, "chosen", "exact")
COLOURS = ("#7f7f7f", "#1f77b4", "#d62728", "#9467bd", "#2ca02c")
LEVEL = 0.05
CLOSE = 0.8  # share of the cost that a loss must remove to be close to `exact`
Found = dict[str, Any]


@lru_cache
def results() -> Found:
    """Return the results of the study."""
    found: Found = json.loads(lzma.decompress((HERE / "results.json.xz").read_bytes()))
    return found


def page() -> str:
    """Return the page."""
    found = results()
    sizes = sorted({one["lists"] for one in found["tables"]})
    tested = [row for one in found["tables"] for row in one["rows"] if "p" in row]
    return fill(
        HERE / "template.md",
        seeds=str(found["tables"][0]["seeds"]),
        steps=str(found["steps"]),
        batch=str(found["batch"]),
        loss_lr=f"{found['loss_lr']:g}",
        test_lists=f"{found['test_lists']:,}",
        draws=str(found["draws"]),
        sizes=_joined([f"{size:,}" for size in sizes]),
        largest=f"{sizes[-1]:,}",
        machine=where(found),
        hours=f"{found['seconds'] / 3600:.1f}",
        orders=_orders(found),
        counts=_counts(found),
        shares=_shares(found),
        gains_mlp=detailed(found, "unequal", "mlp", sizes[-1], GAINS),
        gains_linear=detailed(found, "unequal", "linear", sizes[-1], GAINS),
        discounts_mlp=detailed(found, "unequal", "mlp", sizes[-1], (STANDARD, *DISCOUNTS)),
        discounts_linear=detailed(found, "unequal", "linear", sizes[-1], (STANDARD, *DISCOUNTS)),
        scalars=_scalars(found, sizes[-1]),
        detectable=_points(float(np.median([row["detectable"] for row in tested]))),
        findings="\n".join(f"{number}. {text}" for number, text in enumerate(findings(found), start=1)),
        answer=answer(found),
        every_table=_every(found),
    )


def one_table(found: Found, kind: str, ranker: str, lists: int) -> dict[tuple[str, str], Any]:
    """Return the rows of a kind of data, a ranker and a number of lists, by loss and judge."""
    (one,) = [one for one in found["tables"] if (one["kind"], one["ranker"], one["lists"]) == (kind, ranker, lists)]
    return {(row["loss"], row["judge"]): row for row in one["rows"]}


def tables_of(found: Found, kind: str, ranker: str | None = None, lists: int | None = None) -> list[Any]:
    """Return all tables of a kind of data, or only those of a ranker or a number of lists."""
    return [
        one_table(found, one["kind"], one["ranker"], one["lists"])
        for one in found["tables"]
        if one["kind"] == kind and ranker in (None, one["ranker"]) and lists in (None, one["lists"])
    ]


def counted(tables: list[Any], loss: str, judges: tuple[str, ...]) -> tuple[int, int, int]:
    """Return how often a loss is significantly better and worse than `fixed`, and the number of comparisons."""
    rows = [one[loss, judge] for one in tables for judge in judges]
    rows = [row for row in rows if "p" in row]
    sure = [row["difference"] for row in rows if row["adjusted"] < LEVEL]
    return sum(gap < 0 for gap in sure), sum(gap > 0 for gap in sure), len(rows)


def share(tables: list[Any], loss: str, judges: tuple[str, ...]) -> float:
    """Return the share of the cost of the mismatch that a loss removes: 0 for `fixed`, 1 for `exact`."""
    sums = {
        each: sum(_mean(one[each, judge]) for one in tables for judge in judges) for each in ("fixed", loss, "exact")
    }
    return float((sums["fixed"] - sums[loss]) / (sums["fixed"] - sums["exact"]))


def _mean(row: Any) -> float:
    return float(np.mean(row["regret"]))


def _counts(found: Found) -> str:
    """Return a table: how often each loss is significantly better or worse than `fixed`."""
    groups = {"flatter gain": FLATTER, "standard": (STANDARD,), "steeper gain": STEEPER, "other discount": DISCOUNTS}
    lines = []
    for loss in NAMES:
        if loss != "fixed":
            cells = []
            for kind in ("unequal", "equal"):
                for judges in groups.values():
                    better, worse, count = counted(tables_of(found, kind), loss, judges)
                    cells.append(f"{better} / {worse} of {count}" if count else "same as fixed")
            lines.append([NAMES[loss], *cells])
    return table(["loss", *(f"{kind}: {name}" for kind in ("unequal", "equal") for name in groups)], lines)


def _shares(found: Found) -> str:
    """Return a table: the share of the cost of a gain mismatch that each loss removes."""
    columns = [(ranker, lists) for ranker in ("linear", "mlp") for lists in _sizes(found)]
    lines = []
    for loss in (*LEARNED, "chosen"):
        cells = [
            f"{share(tables_of(found, 'unequal', *column), loss, judges):.0%}"
            for judges in (FLATTER, STEEPER)
            for column in columns
        ]
        lines.append([NAMES[loss], *cells])
    heads = [f"{side}: {ranker}, {lists:,}" for side in ("flatter", "steeper") for ranker, lists in columns]
    return table(["loss", *heads], lines)


def _sizes(found: Found) -> list[int]:
    return sorted({one["lists"] for one in found["tables"]})


def _orders(found: Found) -> str:
    """Return a table: the regret of the best order of the standard NDCG."""
    judges = [judge for judge in (*GAINS, *DISCOUNTS) if judge != STANDARD]
    lines = [[kind, *(_points(costs[judge]) for judge in judges)] for kind, costs in found["orders"].items()]
    return table(["noise", *(_head(judge) for judge in judges)], lines)


def detailed(found: Found, kind: str, ranker: str, lists: int, judges: tuple[str, ...]) -> str:
    """Return a table of regrets with differences to `fixed`, their intervals and p."""
    rows = one_table(found, kind, ranker, lists)
    lines = []
    for loss, name in NAMES.items():
        cells = []
        for judge in judges:
            row = rows[loss, judge]
            text = _points(_mean(row))
            if "p" in row:
                low, high = row["interval"]
                gap = f"{_signed(row['difference'])} [{_signed(low)}, {_signed(high)}], p {p_value(row['adjusted'])}"
                text += f" ({gap})"
            cells.append(text)
        lines.append([name, *cells])
    return table(["loss", *(_head(judge) for judge in judges)], lines)


def _every(found: Found) -> str:
    """Return compact tables of all regrets."""
    blocks = []
    for one in found["tables"]:
        rows = one_table(found, one["kind"], one["ranker"], one["lists"])
        lines = []
        for loss, name in NAMES.items():
            cells = [f"{_points(_mean(rows[loss, judge]))}{_mark(rows[loss, judge])}" for judge in (*GAINS, *DISCOUNTS)]
            lines.append([name, *cells])
        title = f"Noise {one['kind']}, {one['ranker']}, {one['lists']:,} training lists:"
        blocks += [title, table(["loss", *(_head(judge) for judge in (*GAINS, *DISCOUNTS))], lines)]
    return "\n\n".join(blocks)


def _mark(row: Any) -> str:
    if "p" not in row or row["adjusted"] >= LEVEL:
        return ""
    return " ▲" if row["difference"] < 0 else " ▼"


def _scalars(found: Found, lists: int) -> str:
    """Return a table of the median b_g of the learned losses, by judge."""
    lines = []
    for ranker in ("linear", "mlp"):
        rows = one_table(found, "unequal", ranker, lists)
        for loss in LEARNED:
            values = [rows[loss, judge]["learned"] for judge in (*GAINS, *DISCOUNTS)]
            lines.append([ranker, NAMES[loss], *(f"{gain:.2f}, {discount:.2f}" for gain, discount, _ in values)])
    return table(["ranker", "loss", *(_head(judge) for judge in (*GAINS, *DISCOUNTS))], lines)


def findings(found: Found) -> list[str]:
    """Return what the study says about each expectation of the protocol, with its numbers."""
    return [
        _equal_noise(found),
        _unequal_noise(found),
        _held_out(found),
        _discounts(found),
        _chosen(found),
        _references(found),
    ]


def _kept(yes: bool) -> str:
    return "As expected." if yes else "Not as expected."


def _equal_noise(found: Found) -> str:
    tables, judges = tables_of(found, "equal"), tuple(each for each in (*GAINS, *DISCOUNTS) if each != STANDARD)
    counts = [counted(tables, loss, (*judges, STANDARD)) for loss in LEARNED]
    better, worse, total = (sum(each) for each in zip(*counts, strict=True))
    exact = counted(tables, "exact", judges)
    return (
        f"Equal noise. {_kept(better + worse <= total / 10)} The learned forms are significantly better than `fixed` "
        f"in {better} and worse in {worse} of {total} comparisons. `exact` is better in {exact[0]}, and worse in "
        f"{exact[1]}, of {exact[2]}."
    )


def _unequal_noise(found: Found) -> str:
    tables = tables_of(found, "unequal")
    exact = counted(tables, "exact", (*FLATTER, *STEEPER))
    flat, steep = ([counted(tables, loss, side) for loss in ("joint", "joint, curved")] for side in (FLATTER, STEEPER))
    sums = [tuple(sum(each) for each in zip(*side, strict=True)) for side in (flat, steep)]
    kept = exact[0] > exact[2] / 2 and sums[0][0] > sums[0][1] and sums[1][1] > sums[1][0]
    return (
        f"Unequal noise, another gain. {_kept(kept)} `exact` is significantly better than `fixed` in {exact[0]}, and "
        f"worse in {exact[1]}, of {exact[2]} comparisons. The two joint forms are better in {sums[0][0]} and worse in "
        f"{sums[0][1]} of {sums[0][2]} comparisons with a flatter gain, and better in {sums[1][0]} and worse in "
        f"{sums[1][1]} of {sums[1][2]} with a steeper gain."
    )


def _held_out(found: Found) -> str:
    tables, sizes = tables_of(found, "unequal"), _sizes(found)
    judges = (*FLATTER, *STEEPER)
    blind, seeing = (counted(tables, loss, judges) for loss in ("held out", JUDGED))
    shares = [share(tables_of(found, "unequal", None, lists), JUDGED, judges) for lists in sizes]
    kept = blind[0] + blind[1] <= blind[2] / 10 and shares[-1] >= CLOSE > shares[0]
    parts = ", ".join(f"{each:.0%} with {lists:,} lists" for each, lists in zip(shares, sizes, strict=True))
    return (
        f"Unequal noise, held-out lists. {_kept(kept)} With the standard NDCG they are significantly better in "
        f"{blind[0]} and worse in {blind[1]} of {blind[2]} comparisons; with the judging metric, better in {seeing[0]} "
        f"and worse in {seeing[1]}. The judging metric removes this share of the cost of the mismatch: {parts}. "
        f"We expected that it comes close to `exact` with {sizes[-1]:,} lists; here, close means {CLOSE:.0%}."
    )


def _discounts(found: Found) -> str:
    texts, often, gaps = [], [], []
    for ranker in ("linear", "mlp"):
        tables = [*tables_of(found, "unequal", ranker), *tables_of(found, "equal", ranker)]
        better, worse, total = counted(tables, "exact", DISCOUNTS)
        often.append(better / total)
        rows = [one["exact", judge] for one in tables for judge in DISCOUNTS]
        gaps += [row["difference"] for row in rows if row["adjusted"] < LEVEL]
        texts.append(f"{ranker}: better in {better}, worse in {worse} of {total}")
    largest = f" The largest significant difference is {_signed(min(gaps, key=lambda gap: -abs(gap)))}." if gaps else ""
    return (
        f"Another discount. {_kept(often[1] <= 0.1)} `exact` against `fixed`: {'; '.join(texts)}.{largest} We expected "
        "small differences, and none with the MLP."
    )


def _chosen(found: Found) -> str:
    pairs = [
        pair for one in found["tables"] for pair in one["judge - chosen"] if "p" in pair and one["kind"] == "unequal"
    ]
    sure = [pair["difference"] for pair in pairs if pair["adjusted"] < LEVEL]
    lower, higher = sum(gap < 0 for gap in sure), sum(gap > 0 for gap in sure)
    gap = float(np.mean([pair["difference"] for pair in pairs]))
    return (
        f"Choice by validation. {_kept(higher >= lower)} `{JUDGED}` has a significantly lower regret than `chosen` in "
        f"{lower} of {len(pairs)} comparisons (unequal noise), and a higher regret in {higher}. Mean difference: "
        f"{_signed(gap)} points. But `chosen` has five tries: with the standard NDCG as the judge, where nothing is "
        f"mismatched, it is also better than `fixed`, by {_points(_tries(found))} points on average."
    )


def _tries(found: Found) -> float:
    """Return the mean reduction of the regret by `chosen` if nothing is mismatched, with unequal noise."""
    rows = [one["chosen", STANDARD] for one in tables_of(found, "unequal")]
    return -float(np.mean([row.get("difference", 0.0) for row in rows]))


def _references(found: Found) -> str:
    judges, texts = (*GAINS, *DISCOUNTS), []
    for loss in ("softmax", "lambdaloss"):
        counts = [counted(tables_of(found, kind), loss, judges) for kind in ("unequal", "equal")]
        parts = [f"{better} and {worse} of {total}" for better, worse, total in counts]
        texts.append(f"{NAMES[loss]} in {parts[0]} comparisons with unequal noise and {parts[1]} with equal noise")
    return (
        "Reference losses (nothing was expected). Significantly better and worse than `fixed`: "
        f"{'; '.join(texts)}. So which loss is trained can matter more than the scalars of one loss."
    )


def answer(found: Found) -> str:
    """Return the answer of the page in a few sentences; an error if the numbers do not support them."""
    tables, both = tables_of(found, "unequal"), (*FLATTER, *STEEPER)
    joint = [[share(tables, loss, side) for loss in ("joint", "joint, curved")] for side in (FLATTER, STEEPER)]
    blind, seeing, chosen = (share(tables, loss, both) for loss in ("held out", JUDGED, "chosen"))
    bases = [one[loss, judge]["learned"][0] for one in tables for loss in ("joint", "joint, curved") for judge in GAINS]
    equal = [counted(tables_of(found, "equal"), loss, (*GAINS, *DISCOUNTS)) for loss in LEARNED]
    better, worse, total = (sum(each) for each in zip(*equal, strict=True))
    expected = min(joint[0]) > 0.1 and max(joint[1]) < -0.1 and abs(blind) < 0.15 and 0.1 < seeing < chosen
    if not (expected and max(bases) < 2 and better + worse < total / 20):
        raise ValueError("the answer of the page must be written again: its results have changed")
    flat, steep = (" and ".join(f"{abs(each):.0%}" for each in side) for side in joint)
    sentences = (
        "The answer: **only if the best order depends on the metric, and reliably only if the loss learns from the",
        "judging metric.** If the best order does not depend on it, the learned forms differ significantly from the",
        f"fixed loss in {better + worse} of {total} comparisons. If it does, LearnDCG with held-out lists and the",
        f"judging metric (`adapt=metric`) removes {seeing:.0%} of the cost of a mismatch of the gain; with the",
        f"standard NDCG it removes {blind:.0%}. Joint training, as in the paper, does not know the judge: its gain",
        f"always becomes flatter. So it helps if the judge happens to be flatter (it removes {flat} of the cost: as",
        f"printed, curved), and adds to the cost if the judge is steeper ({steep} more). A simpler way is better:",
        "train with a few fixed gains and discounts, and let the validation lists choose by the judging metric. This",
        f"removes {chosen:.0%}, with five trainings instead of one.",
    )
    return " ".join(sentences)


def pictures() -> dict[str, str]:
    """Return the picture by its path below `docs`: regret over the gain of the judge, with unequal noise."""
    import altair as alt

    found, sizes = results(), _sizes(results())
    panels = []
    for ranker in ("linear", "mlp"):
        for lists in (sizes[0], sizes[-1]):
            rows = one_table(found, "unequal", ranker, lists)
            points = []
            for loss in DRAWN:
                for judge in GAINS:
                    values = 100 * np.asarray(rows[loss, judge]["regret"])
                    half = _half_interval(values)
                    mean = float(values.mean())
                    points.append({"judge": _head(judge), "loss": NAMES[loss], "regret": round(mean, 2)})
                    points[-1] |= {"low": round(mean - half, 2), "high": round(mean + half, 2)}
            base = alt.Chart(alt.Data(values=points)).encode(
                x=alt.X("judge:N", sort=[_head(judge) for judge in GAINS], title=None, axis=alt.Axis(labelAngle=-30)),
                color=alt.Color(
                    "loss:N",
                    scale=alt.Scale(domain=[NAMES[each] for each in DRAWN], range=list(COLOURS)),
                    title=None,
                ),
                xOffset=alt.XOffset("loss:N", sort=[NAMES[each] for each in DRAWN]),
            )
            bars = base.mark_rule(strokeWidth=1.5, aria=False).encode(y=alt.Y("low:Q", title="regret"), y2="high:Q")
            dots = base.mark_tick(size=7, thickness=2, aria=False).encode(y="regret:Q")
            panels.append((bars + dots).properties(width=300, height=150, title=f"{ranker}, {lists:,} training lists"))
    drawn = alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:])).configure_legend(orient="bottom")
    return {"regret.svg": svg(drawn)}


def _half_interval(values: Any) -> float:
    """Return half of the 95% interval of the mean over the seeds."""
    from rankgrad.experiments.statistics import half_interval

    return float(np.std(values, ddof=1) * half_interval(len(values)))


def _head(judge: str) -> str:
    return HEADS.get(judge, judge)


def _points(value: float) -> str:
    return f"{100 * value:.2f}"


def _signed(value: float) -> str:
    return f"{100 * value:+.2f}"


def _joined(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
