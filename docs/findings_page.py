"""The findings on LearnDCG's five questions, from `docs/tables/study-learndcg-rq*.json`; its numbers are theirs."""

from typing import Any

from pieces import grid, paragraph, read, wrapped
from study_page import printed_value, significant

LEARNED = ("LearnDCG", "NeuralLoss")  # the two learnable losses of the paper
JUDGED = "nDCG(empty='one')@10"  # the convention that fits the paper's numbers
PICTURES = {
    "learndcg-cost": "Quality against the seconds of one training run, Context-Aware Ranker: the paper's Figure 1",
    "learndcg-gain_base": "b_g over the epochs with the first seed, a line for each fold, MLP",
    "learndcg-discount_base": "b_d over the epochs, MLP: the paper's Figure 2",
    "learndcg-alpha": "alpha over the epochs, MLP",
}

HEAD = """# LearnDCG's five research questions, asked again

The paper learns the gain, the discount and the temperature of a smooth NDCG together with the ranker, and reports gains
everywhere. Here its questions are put on MQ2008, at equal tuning: for every ranker and loss, {trials} settings on each
fold (three learning rates, two temperatures or forms of the loss), chosen on validation with the first seed; then
{seeds} seeds on {folds} folds. Rankers are small, and stop early. [How the three scalars are moved, and what the
printed form can and cannot learn](learndcg.md); [NeuralLoss](neural_loss.md).

```
for n in 1 2 3 4 5; do
  rankgrad experiment recipes/learndcg-rq$n.yaml --data-root DIR --out docs/studies/learndcg --pack
done
python docs/study_tables.py && python docs/build.py
```

The five recipes share their cells, and go on from the packed file that is there: {runs} runs, {hours} hours of
training, on {machines}. NDCG@10 x 100 with the gain 2^y - 1; a query without a relevant document counts 1, which fits
the size of the paper's numbers. Differences are over the 784 test queries, p-values of paired t-tests on the means over
seeds, with Holm's correction over a table.
"""


def findings_page() -> str | None:
    """The page; None while there is no study."""
    studies = {number: read(f"study-learndcg-rq{number}") for number in range(1, 6)}
    if None in studies.values():
        return None
    parts = [_head(studies), _effect(studies[1]), _alternatives(studies[2]), _rivals(studies[3]), _cost(studies[4])]
    return "\n".join([*parts, _rankers(studies[5])])


def _head(studies: dict[int, Any]) -> str:
    first = studies[1]["tables"][0]
    runs = studies[1]["packed"]
    told = HEAD.format(
        trials=" or ".join(sorted({str(sum(row["trials"])) for row in first["rows"]})),
        seeds=first["seeds"],
        folds=first["folds"],
        runs=f"{runs['runs']:,}",
        hours=f"{runs['hours']:.1f}",
        machines="; ".join(f"{name} ({count:,} runs)" for name, count in runs["machines"].items()),
    )
    return wrapped(told)


def _rows(study: dict[str, Any], model: str) -> dict[str, Any]:
    return {row["loss"]: row for row in study["tables"][0]["rows"] if row["model"] == model}


def _models(study: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in study["tables"][0]["rows"]))


def _mean(row: dict[str, Any]) -> str:
    own = row["entries"][JUDGED]
    return f"{100 * own['mean']:.2f} ± {100 * (own['spread'] or 0.0):.2f}"


def _beside(row: dict[str, Any]) -> str:
    """The difference to the row it is tested against."""
    own = row["entries"][JUDGED]
    if own["difference"] is None:
        return _mean(row)
    low, high = (100 * end for end in own["interval"])
    p = f"{own['adjusted']:.2f}" if own["adjusted"] >= 0.01 else "< 0.01"
    return f"{_mean(row)} ({100 * own['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {p})"


def _against(study: dict[str, Any]) -> str:
    """A table of all rows of a study, a column a ranker."""
    models = _models(study)
    losses = list(dict.fromkeys(row["loss"] for row in study["tables"][0]["rows"]))
    lines = [[loss, *(_beside(_rows(study, model)[loss]) for model in models)] for loss in losses]
    return grid(["loss", *models], lines)


def _significant(study: dict[str, Any], sign: int) -> list[tuple[str, str, float]]:
    """The rows that differ from the one they are tested against, to one side."""
    found = []
    for row in study["tables"][0]["rows"]:
        own = row["entries"][JUDGED]
        if own["difference"] is not None and sign * own["difference"] > 0 and significant(own):
            found.append((row["model"], row["loss"], 100 * own["difference"]))
    return found


def _listed(found: list[tuple[str, str, float]]) -> str:
    return "; ".join(f"{loss} with {model} ({gap:+.2f})" for model, loss, gap in found) or "none"


def _effect(study: dict[str, Any]) -> str:
    learned = ("LearnDCG", "LearnDCG, curved", "LearnDCG, held out")
    models = _models(study)
    gaps = {
        loss: [100 * _rows(study, model)[loss]["entries"][JUDGED]["difference"] for model in models] for loss in learned
    }
    told = "; ".join(f"{loss}: {min(own):+.2f} to {max(own):+.2f}" for loss, own in gaps.items())
    claimed = []
    for model in models:
        fixed, paper = (printed_value("learndcg-table1", model, loss, JUDGED) for loss in ("Fixed", "Learned"))
        if fixed is not None and paper is not None:
            claimed.append(f"{model} {paper - fixed:+.2f}")
    ends = []
    for loss in learned:
        for model in models:
            own = _rows(study, model)[loss]["learned"]
            said = ", ".join(f"{name} {low:.2f} to {high:.2f}" for name, (low, _, high) in own.items())
            ends.append([loss, model, said])
    better, worse = _significant(study, 1), _significant(study, -1)
    verdict = "**No gain that survives the test.**" if not better else "**There is a gain that survives the test.**"
    found = f"""{verdict} Against the same loss with its scalars fixed, over the {len(models)} rankers: {told}.
        Significantly better after Holm's correction: {_listed(better)}; significantly worse: {_listed(worse)}. The
        paper prints, on this set: {"; ".join(claimed)}."""
    return f"""## RQ1. Does learning the loss with the ranker help?

{paragraph(found)}

{_against(study)}

In brackets: the difference to Fixed, its 95% bootstrap interval, and Holm's p. The three scalars at the epoch that
validation chose, over {study["tables"][0]["folds"]} folds and {study["tables"][0]["seeds"]} seeds:

{grid(["loss", "ranker", "least to greatest"], ends)}

{_pictures("learndcg-gain_base", "learndcg-discount_base", "learndcg-alpha")}
"""


def _alternatives(study: dict[str, Any]) -> str:
    theirs = {loss: printed_value("learndcg-table2", "Context-Aware Ranker", loss, JUDGED) for loss in LEARNED}
    found = f"""Tested against LearnDCG. Significantly better: {_listed(_significant(study, 1))}. Significantly worse:
        {_listed(_significant(study, -1))}. With its Context-Aware Ranker the paper prints {theirs["NeuralLoss"]} for
        NeuralLoss and {theirs["LearnDCG"]} for LearnDCG (Table 2). "Mended" is our form of NeuralLoss: other lists to
        train on, the gain that is judged."""
    return f"""## RQ2. LearnDCG and NeuralLoss

{paragraph(found)}

{_against(study)}
"""


def _rivals(study: dict[str, Any]) -> str:
    places = []
    for model in _models(study):
        order = sorted(_rows(study, model).values(), key=lambda row: -row["entries"][JUDGED]["mean"])
        place = [row["loss"] for row in order].index("LearnDCG") + 1
        places.append(f"{place} of {len(order)} with {model} (first: {order[0]['loss']})")
    lines = []
    for loss, row in _rows(study, "Context-Aware Ranker").items():
        value = printed_value("learndcg-table2", "Context-Aware Ranker", loss, JUDGED)
        ours = 100 * row["entries"][JUDGED]["mean"]
        lines.append(
            [
                loss,
                f"{ours:.2f}",
                "" if value is None else f"{value:.2f}",
                "" if value is None else f"{ours - value:+.2f}",
            ]
        )
    found = f"""LearnDCG's place: {"; ".join(places)}. Significantly better than LearnDCG:
        {_listed(_significant(study, 1))}. Significantly worse: {_listed(_significant(study, -1))}."""
    return f"""## RQ3. LearnDCG and the losses of the paper's Table 2

{paragraph(found)}

{_against(study)}

Beside the paper's Table 2, whose Context-Aware Ranker is larger than ours:

{grid(["loss", "ours", "paper", "difference"], lines)}
"""


def _cost(study: dict[str, Any]) -> str:
    rows = sorted(_rows(study, "Context-Aware Ranker").values(), key=lambda row: row["seconds"] / row["epochs"])
    least = rows[0]["seconds"] / rows[0]["epochs"]
    lines = []
    for row in rows:
        epoch = row["seconds"] / row["epochs"]
        lines.append([row["loss"], _mean(row), f"{row['seconds']:.1f}", f"{row['epochs']:.0f}", f"{epoch / least:.1f}"])
    head = ["loss", "NDCG@10", "seconds a run", "epochs until it stopped", "an epoch, x the cheapest"]
    return f"""## RQ4. What a run costs

Seconds of training alone, two runs at a time on two cores that did little else. The network of NeuralLoss is trained
before, once for all data with the same grades: [what that takes](neural_loss.md).
Small lists (about 19 documents) and a small ranker make the loss count more than elsewhere.

{grid(head, lines)}

{_pictures("learndcg-cost")}
"""


def _rankers(study: dict[str, Any]) -> str:
    lines = []
    for model in _models(study):
        rows = _rows(study, model)
        own = rows["LearnDCG"]["entries"][JUDGED]
        paper = [printed_value("learndcg-table1", model, loss, JUDGED) for loss in ("Fixed", "Learned")]
        claimed = f"{paper[0]:.2f} to {paper[1]:.2f} ({paper[1] - paper[0]:+.2f})" if None not in paper else ""
        lines.append(
            [
                model,
                _mean(rows["Fixed"]),
                _mean(rows["LearnDCG"]),
                f"{100 * own['difference']:+.2f}",
                f"{own['adjusted']:.2f}",
                claimed,
            ]
        )
    up = sum(float(line[3]) > 0 for line in lines)
    return f"""## RQ5. Is it so with every ranker?

LearnDCG as printed is above its fixed form with {up} of {len(lines)} rankers. The runs are those of RQ1; Holm's
correction is over fewer comparisons here.

{grid(["ranker", "Fixed", "LearnDCG", "difference", "p (Holm)", "paper, fixed to learned"], lines)}
"""


def _pictures(*names: str) -> str:
    return "\n\n".join(f"![{PICTURES[name]}](studies/{name}.svg)\n\n*{PICTURES[name]}.*" for name in names)
