"""Page with the findings on LearnDCG's five research questions, from `docs/tables/study-learndcg-rq*.json`."""

from typing import Any

from .measurements import read
from .mq2008_study import printed_value, significant
from .templates import fill, table

METRIC = "nDCG(empty='one')@10"  # the convention that fits the paper's numbers
LEARNED = ("LearnDCG", "LearnDCG, curved", "LearnDCG, held out")
PICTURES = {
    "learndcg-cost": "Quality against the seconds of one training run, Context-Aware Ranker: the paper's Figure 1",
    "learndcg-gain_base": "b_g over the epochs with the first seed, one line per fold, MLP",
    "learndcg-discount_base": "b_d over the epochs, MLP: the paper's Figure 2",
    "learndcg-alpha": "alpha over the epochs, MLP",
}


def page() -> str:
    """Return the page."""
    studies = [read(f"study-learndcg-rq{number}") for number in range(1, 6)]
    sections = zip((_effect, _alternatives, _rivals, _cost, _rankers), studies, strict=True)
    values = {name: value for section, study in sections for name, value in section(study).items()}
    return fill("learndcg-findings", **_setting(studies[0]), **values)


def _setting(study: dict[str, Any]) -> dict[str, str]:
    first, runs = study["tables"][0], study["packed"]
    return {
        "trials": " or ".join(sorted({str(sum(row["trials"])) for row in first["rows"]})),
        "seeds": str(first["seeds"]),
        "folds": str(first["folds"]),
        "rankers": str(len(_models(study))),
        "runs": f"{runs['runs']:,}",
        "hours": f"{runs['hours']:.1f}",
        "machines": "; ".join(f"{name} ({count:,} runs)" for name, count in runs["machines"].items()),
    }


def _rows(study: dict[str, Any], model: str) -> dict[str, Any]:
    return {row["loss"]: row for row in study["tables"][0]["rows"] if row["model"] == model}


def _models(study: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in study["tables"][0]["rows"]))


def _mean(row: dict[str, Any]) -> str:
    entry = row["entries"][METRIC]
    return f"{100 * entry['mean']:.2f} ± {100 * (entry['spread'] or 0.0):.2f}"


def _beside(row: dict[str, Any]) -> str:
    """Return the mean of a row, and its difference to the row that it is tested against."""
    entry = row["entries"][METRIC]
    if entry["difference"] is None:
        return _mean(row)
    low, high = (100 * end for end in entry["interval"])
    p = f"{entry['adjusted']:.2f}" if entry["adjusted"] >= 0.01 else "< 0.01"
    return f"{_mean(row)} ({100 * entry['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {p})"


def _against(study: dict[str, Any]) -> str:
    """Return a table of all rows of a study, with one column per ranker."""
    models = _models(study)
    losses = list(dict.fromkeys(row["loss"] for row in study["tables"][0]["rows"]))
    lines = [[loss, *(_beside(_rows(study, model)[loss]) for model in models)] for loss in losses]
    return table(["loss", *models], lines)


def _significant(study: dict[str, Any], sign: int) -> list[tuple[str, str, float]]:
    """Return the rows significantly better (sign 1) or worse (sign -1) than the row they are tested against."""
    found = []
    for row in study["tables"][0]["rows"]:
        entry = row["entries"][METRIC]
        if entry["difference"] is not None and sign * entry["difference"] > 0 and significant(entry):
            found.append((row["model"], row["loss"], 100 * entry["difference"]))
    return found


def _listed(found: list[tuple[str, str, float]]) -> str:
    return "; ".join(f"{loss} with {model} ({gap:+.2f})" for model, loss, gap in found) or "none"


def _effect(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the first question: learned scalars against fixed ones."""
    models = _models(study)
    ranges, claimed, ends = [], [], []
    for loss in LEARNED:
        rows = {model: _rows(study, model)[loss] for model in models}
        gaps = [100 * row["entries"][METRIC]["difference"] for row in rows.values()]
        ranges.append(f"{loss}: {min(gaps):+.2f} to {max(gaps):+.2f}")
        for model, row in rows.items():
            scalars = [f"{name} {low:.2f} to {high:.2f}" for name, (low, _, high) in row["learned"].items()]
            ends.append([loss, model, ", ".join(scalars)])
    for model in models:
        fixed, learned = (printed_value("learndcg-table1", model, loss, METRIC) for loss in ("Fixed", "Learned"))
        if fixed is not None and learned is not None:
            claimed.append(f"{model} {learned - fixed:+.2f}")
    better = _significant(study, 1)
    verdict = "**There is a significant improvement.**" if better else "**No significant improvement.**"
    return {
        "verdict": verdict,
        "effect_ranges": "; ".join(ranges),
        "effect_better": _listed(better),
        "effect_worse": _listed(_significant(study, -1)),
        "effect_paper": "; ".join(claimed),
        "effect_table": _against(study),
        "scalars_table": table(["loss", "ranker", "minimum to maximum"], ends),
        "scalar_pictures": _pictures("learndcg-gain_base", "learndcg-discount_base", "learndcg-alpha"),
    }


def _alternatives(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the second question: LearnDCG and NeuralLoss."""
    return {
        "alternatives_better": _listed(_significant(study, 1)),
        "alternatives_worse": _listed(_significant(study, -1)),
        "paper_neuralloss": str(printed_value("learndcg-table2", "Context-Aware Ranker", "NeuralLoss", METRIC)),
        "paper_learndcg": str(printed_value("learndcg-table2", "Context-Aware Ranker", "LearnDCG", METRIC)),
        "alternatives_table": _against(study),
    }


def _rivals(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the third question: LearnDCG and the losses of the paper's Table 2."""
    places, lines = [], []
    for model in _models(study):
        order = sorted(_rows(study, model).values(), key=lambda row: -row["entries"][METRIC]["mean"])
        place = [row["loss"] for row in order].index("LearnDCG") + 1
        places.append(f"{place} of {len(order)} with {model} (first: {order[0]['loss']})")
    for loss, row in _rows(study, "Context-Aware Ranker").items():
        value = printed_value("learndcg-table2", "Context-Aware Ranker", loss, METRIC)
        ours = 100 * row["entries"][METRIC]["mean"]
        paper = ["", ""] if value is None else [f"{value:.2f}", f"{ours - value:+.2f}"]
        lines.append([loss, f"{ours:.2f}", *paper])
    return {
        "places": "; ".join(places),
        "rivals_better": _listed(_significant(study, 1)),
        "rivals_worse": _listed(_significant(study, -1)),
        "rivals_table": _against(study),
        "paper_table": table(["loss", "ours", "paper", "difference"], lines),
    }


def _cost(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the fourth question: seconds of a run."""
    rows = sorted(_rows(study, "Context-Aware Ranker").values(), key=lambda row: row["seconds"] / row["epochs"])
    least = rows[0]["seconds"] / rows[0]["epochs"]
    lines = []
    for row in rows:
        epoch = row["seconds"] / row["epochs"]
        lines.append([row["loss"], _mean(row), f"{row['seconds']:.1f}", f"{row['epochs']:.0f}", f"{epoch / least:.1f}"])
    head = ["loss", "NDCG@10", "seconds per run", "epochs until it stopped", "time per epoch / cheapest"]
    return {"cost_table": table(head, lines), "cost_picture": _pictures("learndcg-cost")}


def _rankers(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the fifth question: the effect per ranker."""
    lines, gaps = [], []
    for model in _models(study):
        rows = _rows(study, model)
        entry = rows["LearnDCG"]["entries"][METRIC]
        paper = [printed_value("learndcg-table1", model, loss, METRIC) for loss in ("Fixed", "Learned")]
        claimed = f"{paper[0]:.2f} to {paper[1]:.2f} ({paper[1] - paper[0]:+.2f})" if None not in paper else ""
        gaps.append(entry["difference"])
        means = [_mean(rows[loss]) for loss in ("Fixed", "LearnDCG")]
        lines.append([model, *means, f"{100 * entry['difference']:+.2f}", f"{entry['adjusted']:.2f}", claimed])
    head = ["ranker", "Fixed", "LearnDCG", "difference", "p (Holm)", "paper, fixed to learned"]
    return {"rankers_above": str(sum(gap > 0 for gap in gaps)), "rankers_table": table(head, lines)}


def _pictures(*names: str) -> str:
    return "\n\n".join(f"![{PICTURES[name]}](studies/{name}.svg)\n\n*{PICTURES[name]}.*" for name in names)
