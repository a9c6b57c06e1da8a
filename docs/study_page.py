"""The findings of the MQ2008 study, from `docs/tables/study-mq2008-study.json`; every number is put in here."""

from typing import Any

from pieces import grid, read, wrapped
from scipy.stats import spearmanr

from rankgrad.experiments.tables import published

JUDGED = "nDCG@10"
LEVEL = 0.05
# Rows of the papers' tables on MQ2008, and ours that answer them: (table, its model, ours, losses whose names differ).
PAPERS = (
    ("learndcg-table1", "MLP", "MLP", {"LearnDCG": "Learned"}),
    ("learndcg-table1", "Context-Aware Ranker", "Context-Aware Ranker", {"LearnDCG": "Learned"}),
    ("learndcg-table2", "Context-Aware Ranker", "Context-Aware Ranker", {}),
    ("smoothi-table1", "DNN", "MLP", {"ApproxNDCG": "Approx"}),
)

HEAD = """# Every loss on MQ2008, tuned alike

{rankers} x {losses} losses x {folds} folds x {seeds} seeds. For each ranker and loss, {trials} settings are tried on
each fold with the first seed, and validation chooses; then all seeds are run. A neural row searches the learning rate,
a row of trees its own settings, as often: the [recipe](../recipes/mq2008-study.yaml) says everything. Settings never
saw the test lists. We did: two rows, ListMLE with ties together and softmax smoothed, were thought of after earlier
results on these very lists had been seen, and the first rows of their tables must be read with that in mind.

```
rankgrad experiment recipes/mq2008-study.yaml --data-root DIR --out docs/studies/mq2008-study --pack
rankgrad report docs/studies/mq2008-study.tar.xz --no-lists --out docs/studies/mq2008-study.html
python docs/study_tables.py && python docs/build.py
```

The first command goes on from the packed file that is there. {runs} runs, {hours} hours of training in all, on
{machines}; commits {commits}. [The page with curves, costs and single queries](studies/mq2008-study.html) is made from
the same file.
"""

LIMITS = """## What this does not say

- One set: 784 queries, 46 features, three grades, 28% of the queries without a relevant document. Differences between
  losses are small here beside those between queries; larger sets may part what this one cannot.
- Small rankers, one search space. A loss that wants a larger ranker or another temperature is not seen at its best.
- The tests take the mean over seeds of a query as its value: they speak about other queries, not about other seeds, for
  which ± stands. Folds share training lists, so p-values are somewhat too small, as in the papers.
"""


def study_page() -> str | None:
    """The page; None while there is no study."""
    found = read("study-mq2008-study")
    if found is None:
        return None
    table = found["tables"][0]
    models = list(dict.fromkeys(row["model"] for row in table["rows"]))
    parts = [_head(found, table, models), _findings(table, models, found["beside"])]
    parts += [_model(table, model) for model in models]
    parts += [_papers(table), LIMITS]
    return "\n".join(parts)


def _head(found: dict[str, Any], table: dict[str, Any], models: list[str]) -> str:
    trials = sorted({trial for row in table["rows"] for trial in row["trials"]})
    missing = f"\n**{found['missing']} runs are missing: the study is not whole.**\n" if found["missing"] else ""
    told = HEAD.format(
        rankers=f"{len(models)} rankers",
        losses=f"up to {max(sum(row['model'] == model for row in table['rows']) for model in models)}",
        folds=table["folds"],
        seeds=table["seeds"],
        trials=" or ".join(map(str, trials)),
        runs=f"{found['tuning runs'] + found['final runs']:,}",
        hours=f"{found['hours']:.1f}",
        commits=", ".join(found["commits"]),
        machines="; ".join(f"{name} ({count:,} runs)" for name, count in found["machines"].items()),
    )
    return wrapped(told) + missing


def _ranked(table: dict[str, Any], model: str) -> list[dict[str, Any]]:
    rows = [row for row in table["rows"] if row["model"] == model and JUDGED in row["entries"]]
    return sorted(rows, key=lambda row: -row["entries"][JUDGED]["mean"])


def _findings(table: dict[str, Any], models: list[str], beside: list[dict[str, Any]]) -> str:
    lines = ["## What came out", ""]
    for model in models:
        rows = _ranked(table, model)
        if len(rows) == 1:
            continue
        worse = [row["loss"] for row in rows if significant(row["entries"][JUDGED])]
        means = [100 * row["entries"][JUDGED]["mean"] for row in rows]
        spread = [100 * (row["entries"][JUDGED]["spread"] or 0.0) for row in rows]
        said = f"significantly worse: {', '.join(worse)}" if worse else "none is significantly worse"
        lines.append(
            f"- **{model}**: {rows[0]['loss']} is ahead with {means[0]:.2f}, {rows[-1]['loss']} last with "
            f"{means[-1]:.2f}. Of the other {len(rows) - 1}, {len(rows) - 1 - len(worse)} cannot be told from it "
            f"(paired t-test, Holm, {LEVEL}); {said}. Seeds alone move a row by {min(spread):.2f} to {max(spread):.2f}."
        )
    neural = [model for model in models if not _tree(model)]
    if len(neural) > 1:
        both = [{row["loss"]: row["entries"][JUDGED]["mean"] for row in _ranked(table, model)} for model in neural[:2]]
        shared = [loss for loss in both[0] if loss in both[1]]
        rho = spearmanr([both[0][loss] for loss in shared], [both[1][loss] for loss in shared]).statistic
        lines.append(
            f"- **Does the order of the losses depend on the ranker?** Spearman's correlation of the {len(shared)} "
            f"means between {neural[0]} and {neural[1]} is {rho:.2f}."
        )
    best = {model: _ranked(table, model)[0] for model in models}
    order = sorted(models, key=lambda model: -best[model]["entries"][JUDGED]["mean"])
    told = ", ".join(
        f"{model} {100 * best[model]['entries'][JUDGED]['mean']:.2f} ({best[model]['loss']})" for model in order
    )
    lines.append(f"- **The best of each ranker**: {told}.")
    better, worse = (
        [row for row in beside if row["adjusted"] < LEVEL and sign * row["difference"] > 0] for sign in (1, -1)
    )
    ahead = sum(row["difference"] > 0 for row in beside)
    lines.append(
        f"- **Against LambdaMART**, LightGBM's own, tuned as often, {ahead} of the other {len(beside)} rows are ahead; "
        f"significantly (Holm over all of them): {_listed(better)}; significantly behind: {_listed(worse)}."
    )
    return "\n".join(lines) + "\n"


def _listed(rows: list[dict[str, Any]]) -> str:
    return "; ".join(f"{row['model']} with {row['loss']} ({100 * row['difference']:+.2f})" for row in rows) or "none"


def significant(entry: dict[str, Any]) -> bool:
    """Whether a number differs from the one it is tested against."""
    return entry["adjusted"] is not None and entry["adjusted"] < LEVEL


def _tree(model: str) -> bool:
    return any(name in model for name in ("LightGBM", "XGBoost"))


def _model(table: dict[str, Any], model: str) -> str:
    others = [metric for metric in ("nDCG@5", "AP", "RR@10") if metric in table["metrics"]]
    head = [
        "loss",
        JUDGED,
        "± seeds",
        "to the best",
        "95% interval",
        "p (Holm)",
        *others,
        "seconds a run",
        "chosen, by folds",
    ]
    lines = []
    for row in _ranked(table, model):
        own = row["entries"][JUDGED]
        beside = ["", "", ""]
        if own["difference"] is not None:
            low, high = own["interval"] or (float("nan"), float("nan"))
            beside = [
                f"{100 * own['difference']:+.2f}",
                f"{100 * low:+.2f} to {100 * high:+.2f}",
                f"{own['adjusted']:.3f}",
            ]
        lines.append(
            [
                row["loss"],
                f"{100 * own['mean']:.2f}",
                f"{100 * (own['spread'] or 0.0):.2f}",
                *beside,
                *(f"{100 * row['entries'][metric]['mean']:.2f}" for metric in others),
                f"{row['seconds']:.1f}",
                "; ".join(f"{setting} x{count}" if count > 1 else setting for setting, count in row["chosen"].items()),
            ]
        )
    return (
        f"## {model}\n\nMeans x 100 over folds and seeds; gain 2^y - 1; a query without a relevant document counts 0.\n"
        f"\n{grid(head, lines)}\n"
    )


def _papers(table: dict[str, Any]) -> str:
    parts = [
        "## Beside the papers\n\nThe same set and folds, under each paper's conventions. Rankers and tuning differ: "
        "ours are smaller, and all losses are tuned alike.\n"
    ]
    for name, theirs, model, renamed in PAPERS:
        source = published.load_published(name)
        rows = _ranked(table, model)
        metrics = [m for m in table["metrics"] if any(_value(name, theirs, r, m, renamed) is not None for r in rows)]
        if not metrics:
            continue
        digits = 2 if source.scale == 100 else 3
        lines, gaps = [], []
        for row in rows:
            cells = []
            for metric in metrics:
                value = _value(name, theirs, row, metric, renamed)
                if value is None:
                    cells.append("")
                    continue
                ours = source.scale * row["entries"][metric]["mean"]
                gaps.append((row["loss"], metric, ours - value))
                cells.append(f"{ours:.{digits}f} / {value:.{digits}f} ({ours - value:+.{digits}f})")
            if any(cells):
                lines.append([row["loss"], *cells])
        above = sum(gap > 0 for *_, gap in gaps)
        paper = source.paper.partition(":")[0]
        parts.append(
            f"### {paper}, {source.table}: {theirs}{'' if theirs == model else f' (ours: {model})'}\n\n"
            f"Ours / paper (difference); of {len(gaps)} numbers, above in {above}, below in {len(gaps) - above}.\n\n"
            f"{grid(['loss', *(f'`{metric}`' for metric in metrics)], lines)}\n"
        )
    return "\n".join(parts)


def _value(name: str, model: str, row: dict[str, Any], metric: str, renamed: dict[str, str]) -> float | None:
    return printed_value(name, model, renamed.get(row["loss"], row["loss"]), metric)


def printed_value(name: str, model: str, loss: str, metric: str) -> float | None:
    """What a paper prints on MQ2008; None where it prints nothing."""
    found = published.find_published(name, "MQ2008", model, loss, metric)
    return None if found is None else found.value
