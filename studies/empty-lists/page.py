"""Page about lists without a relevant document, and its picture, from the results of `measure.py`."""

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import smooth_ablation
from empty_lists_results import Rows, facts, sizes
from pages.comparisons import HEAD, LEVEL, adjusted, cells
from pages.pictures import svg
from pages.templates import fill, table

PICTURE = "regret"
MODELS = {"lightgbm": "LightGBM", "mlp": "MLP"}
KINDS = {"lost": "shift", "shift": "shift", "level": "level"}  # kind of empty lists -> generated lists
LOSSES = {"labels": "`listnet`", "smoothed": "`xe_ndcg`", "mse": "`mse`"}
COLOURS = ("#1f77b4", "#d62728", "#7f7f7f")
SHARES = (0.2, 0.4, 0.6)
MOST = SHARES[-1]


class Group(NamedTuple):
    """Generated training lists with empty lists of one kind, and a ranker."""

    model: str
    kind: str
    size: int

    @property
    def rows(self) -> Rows:
        """Results of the ranker on these lists."""
        return Rows(f"generated {self.model} {KINDS[self.kind]}", self.size)

    @property
    def names(self) -> list[str]:
        """First cells of a table row."""
        return [MODELS[self.model], f"`{self.kind}`", str(self.size)]


class Tested(NamedTuple):
    """A comparison of a table, and its p-value after the correction over the table."""

    compared: dict[str, float]
    p: float

    @property
    def sign(self) -> int:
        """1 or -1 for a significant difference, 0 for others."""
        return int(np.sign(self.compared["difference"])) if self.p < LEVEL else 0


def page() -> str:
    """Return the page."""
    known = facts()
    kept, explained, light, real = _kept(), _explained(), _light(), _real()
    return fill(
        Path(__file__).parent / "template.md",
        picture=f"![Change of regret with empty lists]({PICTURE}.svg)",
        sizes=" or ".join(map(str, _sizes())),
        replicates=str(known["replicates"]),
        seeds=str(known["seeds"]),
        machine=f"{known['chip']}, LightGBM {known['lightgbm']}, torch {known['torch']}, commit {known['commit']}",
        cells=str(known["cells"]),
        seconds=f"{known['seconds']:,}",
        kept_table=_kept_table(kept),
        utility_table=_utility_table(),
        explained_table=_explained_table(explained),
        light_table=_light_table(light),
        real_empty=", ".join(f"{each['empty']} of {each['lists']} ({name})" for name, each in known["sets"].items()),
        real_table=_real_table(real),
        **_findings(kept, explained, light, real),
        **smooth_ablation.values(),
    )


def _sizes() -> list[int]:
    return sizes("generated lightgbm shift")


def _groups() -> list[Group]:
    return [Group(model, kind, size) for kind in KINDS for model in MODELS for size in _sizes()]


def _row(group: Group, loss: str, treatment: str, share: float = MOST) -> str:
    """Return the name of a row of the study with empty lists."""
    return f"{group.kind} {share} mse" if loss == "mse" else f"{group.kind} {share} {loss} {treatment}"


def _corrected(found: dict[Any, dict[str, float]]) -> dict[Any, Tested]:
    p = adjusted([*found.values()])
    return {key: Tested(compared, float(one)) for (key, compared), one in zip(found.items(), p, strict=True)}


def _regret(rows: Rows, after: str, before: str) -> dict[str, float]:
    """Compare the regrets of two rows: a positive difference means that the first row is worse."""
    return rows.compare(before, after)


def _kept() -> dict[Any, Tested]:
    """Return the change of regret with the largest share of empty lists, by group and loss."""
    return _corrected(
        {
            (group, loss): _regret(group.rows, _row(group, loss, "uniform"), f"{loss} out")
            for group in _groups()
            for loss in LOSSES
        }
    )


def _kept_table(found: dict[Any, Tested]) -> str:
    lines = []
    for (group, loss), tested in found.items():
        rows = group.rows
        out = rows.regret(f"{loss} out")
        some = [f"{rows.regret(_row(group, loss, 'uniform', share)) - out:+.2f}" for share in SHARES[:-1]]
        lines.append([*group.names, LOSSES[loss], f"{out:.2f}", *some, *cells(*tested)])
    head = ["ranker", "kind", "M", "loss", "left out", *(f"{share:.0%}" for share in SHARES[:-1])]
    return table([*head, f"{MOST:.0%}", *HEAD[1:]], lines)


def _utilities(kind: str, key: str) -> tuple[float, float]:
    """Return the mean over replicates of a number of the utilities: in the other lists, and in the empty lists."""
    rows = Rows(f"generated lightgbm {KINDS[kind]}", _sizes()[-1])
    full, empty = (float(rows.values(f"utility {name}", key).mean()) for name in ("full", kind))
    return full, empty


def _utility_table() -> str:
    """Return the table of the utilities in the lists."""
    lines = [
        [f"`{kind}`", *(f"{number:.2f}" for key in ("values", "spread") for number in _utilities(kind, key))]
        for kind in KINDS
    ]
    head = ["mean utility, other lists", "mean utility, empty lists", "spread, other lists", "spread, empty lists"]
    return table(["kind", *head], lines)


def _explained() -> dict[Any, Tested]:
    """Return the effect of the control lists, and the difference of empty lists to them, by group and loss."""
    found = {}
    for group in _groups():
        for loss in LOSSES:
            if loss == "mse":
                continue
            # The kinds `shift` and `lost` have the same lists with a relevant document, hence the same control.
            control = _row(group._replace(kind=KINDS[group.kind]), loss, "control")
            if group.kind != "lost":
                found[group, loss, "control"] = _regret(group.rows, control, f"{loss} out")
            found[group, loss, "documents"] = _regret(group.rows, _row(group, loss, "uniform"), control)
    return _corrected(found)


def _explained_table(found: dict[Any, Tested]) -> str:
    names = {"control": "control - left out", "documents": "empty lists - control"}
    lines = [[*group.names, LOSSES[loss], names[which], *cells(*one)] for (group, loss, which), one in found.items()]
    return table(["ranker", "kind", "M", "loss", "regrets compared", *HEAD], lines)


def _light() -> dict[Any, Tested]:
    """Return the change of regret if empty lists have a small weight, by group and loss."""
    return _corrected(
        {
            (group, loss): _regret(group.rows, _row(group, loss, "light"), f"{loss} out")
            for group in _groups()
            for loss in ("labels", "smoothed")
        }
    )


def _light_table(found: dict[Any, Tested]) -> str:
    lines = [[*group.names, LOSSES[loss], *cells(*one)] for (group, loss), one in found.items()]
    return table(["ranker", "kind", "M", "loss", *HEAD], lines)


def _real() -> dict[Any, Tested]:
    """Return the differences of nDCG@10 on the real sets, by ranker, set, loss and comparison."""
    found = {}
    for model, data in (("lightgbm", "MQ2008"), ("mlp", "MQ2008"), ("lightgbm", "OHSUMED")):
        rows = Rows(f"sets {model} {data}")
        for loss in ("labels", "smoothed"):
            out, kept, control = (f"{loss} {empty} one" for empty in ("out", "uniform", "control"))
            found[model, data, loss, "empty lists - left out"] = rows.compare(kept, out)
            found[model, data, loss, "control - left out"] = rows.compare(control, out)
            found[model, data, loss, "empty lists - control"] = rows.compare(kept, control)
        found[model, data, "mse", "empty lists - left out"] = rows.compare("mse", "mse removed")
    return _corrected(found)


def _real_table(found: dict[Any, Tested]) -> str:
    lines = []
    for (model, data, loss, which), tested in found.items():
        out = "mse removed" if loss == "mse" else f"{loss} out one"
        mean = Rows(f"sets {model} {data}").mean(out)
        lines.append([data, MODELS[model], LOSSES[loss], f"{mean:.2f}", which, *cells(*tested)])
    return table(["set", "ranker", "loss", "left out", "nDCG@10 compared", *HEAD], lines)


def _findings(
    kept: dict[Any, Tested], explained: dict[Any, Tested], light: dict[Any, Tested], real: dict[Any, Tested]
) -> dict[str, str]:
    """Return the sentences about the tables. Sentences without numbers are checked."""
    by_kind = {kind: [one for (group, _), one in kept.items() if group.kind == kind] for kind in KINDS}
    _check(all(one.sign == 1 for kind in ("lost", "shift") for one in by_kind[kind]), "`lost` and `shift` do harm")
    by_model = {
        name: [one for (group, _), one in kept.items() if (group.kind, group.model) == ("level", model)]
        for model, name in MODELS.items()
    }
    _check(not any(one.sign for one in by_model["MLP"]), "`level` makes no difference to the MLP")
    control = [one for (_, _, which), one in explained.items() if which == "control"]
    _check(all(one.sign == 1 for one in control), "the control does harm")
    documents = {
        kind: [one for (group, _, which), one in explained.items() if (group.kind, which) == (kind, "documents")]
        for kind in KINDS
    }
    _check(not any(one.sign for one in documents["lost"]), "`lost` is like the control")
    _check(all(one.sign == -1 for one in documents["shift"] + documents["level"]), "others are better than the control")
    small = {kind: [one for (group, _), one in light.items() if group.kind == kind] for kind in KINDS}
    _check(not any(one.sign for one in real.values()), "real sets show no difference")
    mq2008 = [one for (_, data, _, which), one in real.items() if data == "MQ2008" and which.endswith("left out")]
    least, most = _ends([one.compared["detectable"] for one in mq2008])
    both = documents["shift"] + documents["level"]
    short = [
        "Kept with the weight 1, 60% of `lost` or `shift` lists raise the regret with both rankers and all three "
        f"losses: by {_range(by_kind['lost'])} and by {_range(by_kind['shift'])} points of nDCG@10.",
        f"`level` lists: {_counted(by_model['LightGBM'])} with LightGBM; no significant difference with the MLP "
        f"({_range(by_model['MLP'])}).",
        "Equal targets are not a useful regularisation here. Lists with equal targets and random documents raise the "
        f"regret in all {len(control)} rows, by {_range(control)}. `lost` lists are not significantly different from "
        "them.",
        "The documents of `shift` and `level` lists do teach something: such lists do less harm than random documents "
        f"in all {len(both)} rows. This agrees with their utilities: their documents are more alike than those of "
        "other lists.",
        f"With the weight 0.1: `lost`, {_counted(small['lost'])}; `shift`, {_counted(small['shift'])}; `level`, "
        f"{_counted(small['level'])}.",
        "On MQ2008 no difference is significant; the smallest detectable differences to `left out` are "
        f"{least:.2f} to {most:.2f}.",
    ]
    spreads = {kind: _utilities(kind, "spread") for kind in KINDS}
    _check(all(empty < 0.9 * full for full, empty in (spreads["shift"], spreads["level"])), "more alike")
    _check(0.97 * spreads["lost"][0] < spreads["lost"][1] < 1.03 * spreads["lost"][0], "`lost` lists are as varied")
    return {
        "short": "\n".join(
            textwrap.fill(line, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
            for line in short
        ),
        "lost_documents": _range(documents["lost"]),
        "real_finding": "No difference is significant.",
    }


def _check(holds: bool, sentence: str) -> None:
    """Raise an error if a sentence of the page does not follow from the results."""
    if not holds:
        raise ValueError(f"sentences of page.py must follow from the results; got not: {sentence}")


def _ends(numbers: list[float]) -> tuple[float, float]:
    return min(numbers), max(numbers)


def _range(found: list[Tested]) -> str:
    """Return the range of differences."""
    least, most = _ends([one.compared["difference"] for one in found])
    return f"{least:+.2f} to {most:+.2f}"


def _counted(found: list[Tested]) -> str:
    """Return how many differences of regret are significant, and their range."""
    worse, better = (sum(one.sign == sign for one in found) for sign in (1, -1))
    counts = [f"{count} of {len(found)} rows {word}" for count, word in ((worse, "worse"), (better, "better")) if count]
    return f"{' and '.join(counts) or f'none of {len(found)} rows different'} ({_range(found)})"


def pictures() -> dict[str, str]:
    """Return the picture by its name: change of regret by share of empty lists, with intervals."""
    import altair as alt

    rows = []
    for group in _groups():
        for loss in LOSSES:
            about = {"ranker": MODELS[group.model], "kind": group.kind, "M": f"M = {group.size}"}
            about["loss"] = LOSSES[loss].strip("`")
            aside = 1.2 * ([*LOSSES].index(loss) - 1) + 0.6 * _sizes().index(
                group.size
            )  # so that intervals are visible
            rows.append({**about, "share": 0, "change": 0.0, "low": 0.0, "high": 0.0})
            for share in SHARES:
                found = _regret(group.rows, _row(group, loss, "uniform", share), f"{loss} out")
                ends = {"change": found["difference"], "low": found["low"], "high": found["high"]}
                rows.append({**about, "share": 100 * share + aside, **ends})
    colour = alt.Scale(domain=[name.strip("`") for name in LOSSES.values()], range=list(COLOURS))
    base = alt.Chart().encode(
        x=alt.X("share:Q", title="empty lists (%)", scale=alt.Scale(domain=[0, 64], nice=False)),
        color=alt.Color("loss:N", scale=colour, title=None),
    )
    lines = base.mark_line(strokeWidth=1.4, aria=False).encode(
        y=alt.Y("change:Q", title="change of regret"), strokeDash=alt.StrokeDash("M:N", title=None)
    )
    bars = base.mark_rule(strokeWidth=0.8, opacity=0.6, aria=False).encode(y="low:Q", y2="high:Q", detail="M:N")
    drawn = (
        alt.layer(lines, bars, data=alt.Data(values=rows))
        .properties(width=150, height=130)
        .facet(column=alt.Column("kind:N", sort=list(KINDS), title=None), row=alt.Row("ranker:N", title=None))
        .configure_legend(orient="bottom")
    )
    return {f"{PICTURE}.svg": svg(drawn)}
