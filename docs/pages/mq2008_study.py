"""Page with the findings of the MQ2008 study, from `docs/tables/study-mq2008-study.json`."""

from typing import Any

from scipy.stats import spearmanr

from rankgrad.experiments.tables import published

from .measurements import read
from .templates import fill, table

METRIC = "nDCG@10"
LEVEL = 0.05
NEURAL = ("MLP", "Context-Aware Ranker")  # rankers whose orders of the losses are compared
# Tables of papers on MQ2008 and our rows: (table, its ranker, our ranker, losses with other names there).
PAPERS = (
    ("learndcg-table1", "MLP", "MLP", {"LearnDCG": "Learned"}),
    ("learndcg-table1", "Context-Aware Ranker", "Context-Aware Ranker", {"LearnDCG": "Learned"}),
    ("learndcg-table2", "Context-Aware Ranker", "Context-Aware Ranker", {}),
    ("smoothi-table1", "DNN", "MLP", {"ApproxNDCG": "Approx"}),
)


def page() -> str:
    """Return the page."""
    found = read("study-mq2008-study")
    rows = found["tables"][0]
    models = list(dict.fromkeys(row["model"] for row in rows["rows"]))
    trials = sorted({trial for row in rows["rows"] for trial in row["trials"]})
    missing = f"**{found['missing']} runs are missing: the study is not complete.**" if found["missing"] else ""
    return fill(
        "mq2008-study",
        rankers=str(len(models)),
        losses=str(max(sum(row["model"] == model for row in rows["rows"]) for model in models)),
        folds=str(rows["folds"]),
        seeds=str(rows["seeds"]),
        trials=" or ".join(map(str, trials)),
        runs=f"{found['tuning runs'] + found['final runs']:,}",
        hours=f"{found['hours']:.1f}",
        commits=", ".join(found["commits"]),
        machines="; ".join(f"{name} ({count:,} runs)" for name, count in found["machines"].items()),
        missing=missing,
        **_findings(rows, models),
        **_against_lambdamart(found["beside"]),
        rankers_tables="\n".join(_ranker(rows, model) for model in models),
        paper_tables=_papers(rows),
    )


def significant(entry: dict[str, Any]) -> bool:
    """Return True if an entry differs significantly from the one that it is tested against."""
    return entry["adjusted"] is not None and entry["adjusted"] < LEVEL


def printed_value(name: str, model: str, loss: str, metric: str) -> float | None:
    """Return the number that a paper prints for MQ2008, or None if it prints none."""
    found = published.find_published(name, "MQ2008", model, loss, metric)
    return None if found is None else found.value


def _ranked(study: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """Return the rows of a ranker, the best first."""
    rows = [row for row in study["rows"] if row["model"] == model and METRIC in row["entries"]]
    return sorted(rows, key=lambda row: -row["entries"][METRIC]["mean"])


def _means(study: dict[str, Any], model: str) -> dict[str, float]:
    return {row["loss"]: row["entries"][METRIC]["mean"] for row in _ranked(study, model)}


def _findings(study: dict[str, Any], models: list[str]) -> dict[str, str]:
    """Return the values of the list of findings."""
    first, second = (_means(study, model) for model in NEURAL)
    shared = [loss for loss in first if loss in second]
    rho = spearmanr([first[loss] for loss in shared], [second[loss] for loss in shared]).statistic
    best = {model: _ranked(study, model)[0] for model in models}
    order = sorted(models, key=lambda model: -best[model]["entries"][METRIC]["mean"])
    top = [f"{model} {100 * best[model]['entries'][METRIC]['mean']:.2f} ({best[model]['loss']})" for model in order]
    several = [rows for rows in (_ranked(study, model) for model in models) if len(rows) > 1]
    return {
        "ranker_findings": "\n".join(map(_ranker_finding, several)),
        "shared_losses": str(len(shared)),
        "neural_rankers": " and ".join(NEURAL),
        "rank_correlation": f"{rho:.2f}",
        "best_rows": ", ".join(top),
    }


def _ranker_finding(rows: list[dict[str, Any]]) -> str:
    """Return the finding about one ranker, from its rows in order."""
    worse = [row["loss"] for row in rows if significant(row["entries"][METRIC])]
    means = [100 * row["entries"][METRIC]["mean"] for row in rows]
    spread = [100 * (row["entries"][METRIC]["spread"] or 0.0) for row in rows]
    return (
        f"- **{rows[0]['model']}**: {rows[0]['loss']} is first with {means[0]:.2f}, {rows[-1]['loss']} last with "
        f"{means[-1]:.2f}. Of the other {len(rows) - 1}, {len(rows) - 1 - len(worse)} do not differ significantly from "
        f"it (paired t-test, Holm, {LEVEL}); "
        f"{'significantly worse: ' + ', '.join(worse) if worse else 'none is significantly worse'}. "
        f"The standard deviation over seeds is {min(spread):.2f} to {max(spread):.2f}."
    )


def _against_lambdamart(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the values of the finding about LambdaMART, from the tests of all other rows against it."""

    def listed(sign: int) -> str:
        found = [row for row in rows if row["adjusted"] < LEVEL and sign * row["difference"] > 0]
        named = [f"{row['model']} with {row['loss']} ({100 * row['difference']:+.2f})" for row in found]
        return "; ".join(named) or "none"

    ahead = sum(row["difference"] > 0 for row in rows)
    return {"ahead": str(ahead), "other_rows": str(len(rows)), "better": listed(1), "worse": listed(-1)}


def _ranker(study: dict[str, Any], model: str) -> str:
    """Return the section with the table of a ranker."""
    others = [metric for metric in ("nDCG@5", "AP", "RR@10") if metric in study["metrics"]]
    tested = ["to the best", "95% interval", "p (Holm)"]
    lines = []
    for row in _ranked(study, model):
        entry = row["entries"][METRIC]
        test = ["", "", ""]
        if entry["difference"] is not None:
            low, high = entry["interval"] or (float("nan"), float("nan"))
            interval = f"{100 * low:+.2f} to {100 * high:+.2f}"
            test = [f"{100 * entry['difference']:+.2f}", interval, f"{entry['adjusted']:.3f}"]
        chosen = [f"{setting} x{count}" if count > 1 else setting for setting, count in row["chosen"].items()]
        means = [f"{100 * row['entries'][metric]['mean']:.2f}" for metric in (METRIC, *others)]
        spread = f"{100 * (entry['spread'] or 0.0):.2f}"
        lines.append([row["loss"], means[0], spread, *test, *means[1:], f"{row['seconds']:.1f}", "; ".join(chosen)])
    head = ["loss", METRIC, "± seeds", *tested, *others, "seconds per run", "chosen settings, over folds"]
    return fill("mq2008-study-ranker", ranker=model, table=table(head, lines))


def _papers(study: dict[str, Any]) -> str:
    """Return the tables of our numbers and those of the papers."""
    parts = []
    for name, theirs, model, renamed in PAPERS:
        source = published.load_published(name)
        digits = 2 if source.scale == 100 else 3
        lines, gaps = [], []
        for row in _ranked(study, model):
            cells = {}
            for metric in study["metrics"]:
                value = printed_value(name, theirs, renamed.get(row["loss"], row["loss"]), metric)
                if value is not None:
                    ours = source.scale * row["entries"][metric]["mean"]
                    gaps.append(ours - value)
                    cells[metric] = f"{ours:.{digits}f} / {value:.{digits}f} ({ours - value:+.{digits}f})"
            if cells:
                lines.append((row["loss"], cells))
        metrics = [metric for metric in study["metrics"] if any(metric in cells for _, cells in lines)]
        if lines:
            above = sum(gap > 0 for gap in gaps)
            rows = [[loss, *(cells.get(metric, "") for metric in metrics)] for loss, cells in lines]
            part = fill(
                "mq2008-study-paper",
                paper=source.paper.partition(":")[0],
                paper_table=source.table,
                ranker=theirs if theirs == model else f"{theirs} (ours: {model})",
                count=str(len(gaps)),
                above=str(above),
                below=str(len(gaps) - above),
                table=table(["loss", *(f"`{metric}`" for metric in metrics)], rows),
            )
            parts.append(part)
    return "\n".join(parts)
