"""Page with the findings on LearnDCG's five research questions, from the tables of `study_tables.py`."""

from collections import Counter
from pathlib import Path
from typing import Any

from pages.comparisons import p_value
from pages.measurements import read
from pages.templates import fill, table

from rankgrad.experiments.tables import published

HERE = Path(__file__).parent
METRIC = "nDCG(empty='one')@10"  # the convention that fits the paper's numbers
LEVEL = 0.05
LEARNED = ("LearnDCG", "LearnDCG, curved", "LearnDCG, held out")
PICTURES = {
    "cost": "Quality against the seconds of one training run, Context-Aware Ranker: the paper's Figure 1",
    "gain_base": "b_g over the epochs with the first seed, one line per fold, MLP",
    "discount_base": "b_d over the epochs, MLP: the paper's Figure 2",
    "alpha": "alpha over the epochs, MLP",
}


def page() -> str:
    """Return the page."""
    studies = [read(HERE / f"rq{number}.json") for number in range(1, 6)]
    sections = zip((_effect, _alternatives, _rivals, _cost, _rankers), studies, strict=True)
    values = {name: value for section, study in sections for name, value in section(study).items()}
    return fill(HERE / "template.md", **_setting(studies), **_rate(read(HERE / "rate.json")), **values)


def significant(entry: dict[str, Any]) -> bool:
    """Return True if an entry differs significantly from the one that it is tested against."""
    return entry["adjusted"] is not None and entry["adjusted"] < LEVEL


def printed_value(name: str, model: str, loss: str, metric: str) -> float | None:
    """Return the number that a paper prints for MQ2008, or None if it prints none."""
    found = published.find_published(name, "MQ2008", model, loss, metric)
    return None if found is None else found.value


def _setting(studies: list[dict[str, Any]]) -> dict[str, str]:
    first, runs = studies[0]["tables"][0], studies[0]["packed"]
    every = [entry["detectable"] for study in studies for entry in _tested(study["tables"][0])]
    return {
        "trials": " or ".join(sorted({str(sum(row["trials"])) for row in first["rows"]})),
        "seeds": str(first["seeds"]),
        "folds": str(first["folds"]),
        "rankers": str(len(_models(first))),
        "runs": f"{runs['runs']:,}",
        "hours": f"{runs['hours']:.1f}",
        "machines": "; ".join(f"{name} ({count:,} runs)" for name, count in runs["machines"].items()),
        "detectable": f"{100 * min(every):.2f} to {100 * max(every):.2f}",
    }


def _rows(study: dict[str, Any], model: str, data: int = 0) -> dict[str, Any]:
    """Return the rows of a ranker by the name of the loss; `data` is the number of the data set."""
    return {row["loss"]: row for row in study["tables"][data]["rows"] if row["model"] == model}


def _models(one: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in one["rows"]))


def _tested(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a table that were tested."""
    entries = [row["entries"][METRIC] for row in one["rows"]]
    return [entry for entry in entries if entry["difference"] is not None]


def _mean(row: dict[str, Any]) -> str:
    entry = row["entries"][METRIC]
    return f"{100 * entry['mean']:.2f} ± {100 * (entry['spread'] or 0.0):.2f}"


def _beside(row: dict[str, Any]) -> str:
    """Return the mean of a row, and its difference to the row that it is tested against."""
    entry = row["entries"][METRIC]
    if entry["difference"] is None:
        return _mean(row)
    low, high = (100 * end for end in entry["interval"])
    return f"{_mean(row)} ({100 * entry['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {p_value(entry['adjusted'])})"


def _against(study: dict[str, Any], data: int = 0) -> str:
    """Return a table of all rows of a study, with one column per ranker."""
    one = study["tables"][data]
    models, losses = _models(one), list(dict.fromkeys(row["loss"] for row in one["rows"]))
    lines = [[_named(study, loss), *(_beside(_rows(study, model, data)[loss]) for model in models)] for loss in losses]
    return table(["loss", *models], lines)


def _variants(study: dict[str, Any], loss: str) -> dict[str, int]:
    """Return how often validation chose each variant, over the folds of all rankers; the most frequent first."""
    found: Counter[str] = Counter()
    for row in study["tables"][0]["rows"]:
        if row["loss"] == loss:
            found.update(row["variants"])
    return dict(found.most_common())


def _named(study: dict[str, Any], loss: str) -> str:
    """Return the name of a row. If its variants are different losses, name them all, the most frequent first."""
    variants = _variants(study, loss)
    kinds = list(dict.fromkeys(variant.partition(":")[0] for variant in variants))
    if loss == "RMSE" and len(kinds) > 1:
        return " or ".join(kind.upper() for kind in kinds)
    return loss


def _chosen(study: dict[str, Any]) -> str:
    """Return a table: how often validation chose each variant, and how many of the tried settings can matter."""
    lines = []
    for loss in dict.fromkeys(row["loss"] for row in study["tables"][0]["rows"]):
        rows = [row for row in study["tables"][0]["rows"] if row["loss"] == loss]
        counts = ", ".join(f"`{variant}` {count}" for variant, count in _variants(study, loss).items())
        matter = [row["effective"] for row in rows]
        span = f"{min(matter)}" if min(matter) == max(matter) else f"{min(matter)} to {max(matter)}"
        lines.append([_named(study, loss), counts, span])
    return table(["loss", "times chosen", "settings per ranker that can matter"], lines)


def _significant(study: dict[str, Any], sign: int, data: int = 0) -> list[tuple[str, str, float]]:
    """Return the rows significantly better (sign 1) or worse (sign -1) than the row they are tested against."""
    found = []
    for row in study["tables"][data]["rows"]:
        entry = row["entries"][METRIC]
        if entry["difference"] is not None and sign * entry["difference"] > 0 and significant(entry):
            found.append((row["model"], _named(study, row["loss"]), 100 * entry["difference"]))
    return found


def _listed(found: list[tuple[str, str, float]]) -> str:
    return "; ".join(f"{loss} with {model} ({gap:+.2f})" for model, loss, gap in found) or "none"


def _effect(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the first question: learned scalars against fixed ones."""
    models = _models(study["tables"][0])
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
        "scalar_pictures": _pictures("gain_base", "discount_base", "alpha"),
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
    for model in _models(study["tables"][0]):
        order = sorted(_rows(study, model).values(), key=lambda row: -row["entries"][METRIC]["mean"])
        place = [row["loss"] for row in order].index("LearnDCG") + 1
        places.append(f"{place} of {len(order)} with {model} (first: {_named(study, order[0]['loss'])})")
    for loss, row in _rows(study, "Context-Aware Ranker").items():
        value = printed_value("learndcg-table2", "Context-Aware Ranker", loss, METRIC)
        ours = 100 * row["entries"][METRIC]["mean"]
        paper = ["", ""] if value is None else [f"{value:.2f}", f"{ours - value:+.2f}"]
        lines.append([_named(study, loss), f"{ours:.2f}", *paper])
    return {
        "places": "; ".join(places),
        "rivals_better": _listed(_significant(study, 1)),
        "rivals_worse": _listed(_significant(study, -1)),
        "rivals_table": _against(study),
        "chosen_table": _chosen(study),
        "paper_table": table(["loss", "ours", "paper", "difference"], lines),
    }


def _cost(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the fourth question: seconds of a run."""
    rows = sorted(_rows(study, "Context-Aware Ranker").values(), key=lambda row: row["seconds"] / row["epochs"])
    least = rows[0]["seconds"] / rows[0]["epochs"]
    lines = []
    for row in rows:
        epoch = row["seconds"] / row["epochs"]
        name = _named(study, row["loss"])
        lines.append([name, _mean(row), f"{row['seconds']:.1f}", f"{row['epochs']:.0f}", f"{epoch / least:.1f}"])
    head = ["loss", "NDCG@10", "seconds per run", "epochs until it stopped", "time per epoch / cheapest"]
    return {"cost_table": table(head, lines), "cost_picture": _pictures("cost")}


def _rankers(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the fifth question: the effect per ranker."""
    lines, gaps = [], []
    for model in _models(study["tables"][0]):
        rows = _rows(study, model)
        entry = rows["LearnDCG"]["entries"][METRIC]
        paper = [printed_value("learndcg-table1", model, loss, METRIC) for loss in ("Fixed", "Learned")]
        claimed = f"{paper[0]:.2f} to {paper[1]:.2f} ({paper[1] - paper[0]:+.2f})" if None not in paper else ""
        gaps.append(entry["difference"])
        means = [_mean(rows[loss]) for loss in ("Fixed", "LearnDCG")]
        lines.append([model, *means, f"{100 * entry['difference']:+.2f}", p_value(entry["adjusted"]), claimed])
    head = ["ranker", "Fixed", "LearnDCG", "difference", "p (Holm)", "paper, fixed to learned"]
    return {"rankers_above": str(sum(gap > 0 for gap in gaps)), "rankers_table": table(head, lines)}


RATES = ("0.001", "0.01")


def _rate(study: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the learning rate of the scalars."""
    tables, sentences = [], []
    for place, one in enumerate(study["tables"]):
        tables += [f"{one['data']}:", _against(study, place)]
        better, worse = (_listed(_significant(study, sign, place)) for sign in (1, -1))
        found = [100 * entry["detectable"] for entry in _tested(one)]
        sentences.append(
            f"{one['data']}: significantly better than Fixed: {better}; significantly worse: {worse}; one uncorrected "
            f"test finds a true difference of {min(found):.2f} to {max(found):.2f} with 80% power."
        )
    gaps, moved = [], []
    for rate in RATES:
        rows = [row for one in study["tables"] for row in one["rows"] if row["loss"].endswith(f"rate {rate}")]
        found = [100 * row["entries"][METRIC]["difference"] for row in rows]
        gaps.append(f"{min(found):+.2f} to {max(found):+.2f} at the rate {rate}")
        joint = [row["learned"] for row in rows if "held out" not in row["loss"]]
        ends = [min(each["gain_base"][0] for each in joint), max(each["alpha"][2] for each in joint)]
        moved.append(f"{rate}: b_g down to {ends[0]:.2f}, alpha up to {ends[1]:.2f}")
    return {
        "rate_seeds": str(study["tables"][0]["seeds"]),
        "rate_runs": f"{study['runs']:,}",
        "rate_gaps": " and ".join(gaps),
        "rate_moved": "; ".join(moved),
        "rate_findings": " ".join(sentences),
        "rate_tables": "\n\n".join(tables),
    }


def _pictures(*names: str) -> str:
    return "\n\n".join(f"![{PICTURES[name]}]({name}.svg)\n\n*{PICTURES[name]}.*" for name in names)
