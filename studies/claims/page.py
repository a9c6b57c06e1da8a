"""Page with the verdicts about claims of the papers, from `results.json`."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from claim_list import CONTEXT_AWARE, NEURAL, TANH, Claim, Comparison, claims
from pages.measurements import read
from pages.templates import fill, paragraph, table
from scipy.stats import t

from rankgrad.experiments.recipes.shipped import shipped_recipes
from rankgrad.experiments.statistics import holm
from rankgrad.experiments.tables import published

HERE = Path(__file__).parent
LEVEL = 0.05
IN_SIZE = "refuted in size"
MARGIN = 0.01  # largest difference of two similar rows; one point
VERDICTS = {
    frozenset({"supported"}): "supported",
    frozenset({"refuted"}): "refuted",
    frozenset({"undecided"}): "undecided",
    frozenset({"supported", "undecided"}): "partly supported",
    frozenset({"refuted", "undecided"}): "partly refuted",
}
# Tables of papers on MQ2008 and our rows: (table, its ranker, study, our ranker, our names of its losses).
PAPERS = (
    ("learndcg-table1", "MLP", "claims-learndcg", "MLP", {}),
    ("learndcg-table1", "AttSets", "claims-learndcg", "AttSets", {}),
    ("learndcg-table1", CONTEXT_AWARE, "leaderboard", CONTEXT_AWARE, {"Fixed": "ApproxNDCG", "Learned": "LearnDCG"}),
    ("learndcg-table2", CONTEXT_AWARE, "leaderboard", CONTEXT_AWARE, {"ListMLE": "ListMLE (random ties)"}),
    ("smoothi-table1", "DNN", "claims-smoothi-dnn", "DNN", {}),
)
EMPTY = 220 / 784  # share of the queries of MQ2008 without a relevant document
OTHER_PARTS = (
    "OT, in Table 1 of SmoothI, because it costs a hundred times as much as the other losses.",
    "NeuralLoss, in Table 2 of LearnDCG; [the study of LearnDCG](../learndcg-questions/README.md) has it.",
    "The DNN of the LambdaLoss@K paper (1,024, 512 and 256 units) and the LightGBM settings of the softmax paper (255 "
    "leaves), which are made for 30,000 queries.",
    "MSLR-sample, which has 43 queries per part.",
)


class Tested(NamedTuple):
    """A comparison with its p-values after Holm's correction, and its verdict."""

    comparison: Comparison
    found: dict[str, Any]
    p: float  # of no difference
    other_p: float | None  # of the paper's difference; for a claim of similarity, of a difference of `MARGIN`
    verdict: str

    @property
    def shown(self) -> str:
        """Verdict in the table: `refuted in size` if the difference is only smaller than the paper's."""
        return IN_SIZE if self.verdict == "refuted" and self.p >= LEVEL else self.verdict


def page() -> str:
    """Return the page."""
    found = read(HERE / "results.json")
    every = claims()
    tested = {claim.key: judge(claim, found["claims"][claim.key]) for claim in every}
    ran = [claim for claim in every if tested[claim.key]]
    real = [claim for claim in ran if claim.kind != "question"]
    lines = [
        [
            f"[{claim.title}](#{_anchor(claim.title)})",
            claim.paper,
            overall(tested[claim.key]),
            _counts(tested[claim.key]),
        ]
        for claim in real
    ]
    return fill(
        HERE / "template.md",
        claims=str(len(real)),
        overview=table(["claim", "paper", "verdict", "comparisons"], lines),
        level=str(LEVEL),
        margin=f"{100 * MARGIN:g}",
        sections="\n".join(_section(claim, tested[claim.key], found) for claim in ran),
        paper_tables=paper_tables(found["studies"]),
        not_run=_not_run([claim for claim in every if claim not in ran], found["studies"]),
        studies=_studies(found["studies"]),
    )


def judge(claim: Claim, found: list[dict[str, Any] | None]) -> list[Tested]:
    """Correct the p-values of a claim by Holm's method, and decide each of its comparisons that has run."""
    pairs = [(each, values) for each, values in zip(claim.comparisons, found, strict=True) if values is not None]
    others = [_other_p(claim.kind, comparison, values) for comparison, values in pairs]
    raw = [values["p"] for _, values in pairs] + [p for p in others if p is not None]
    adjusted = holm(raw).tolist() if raw else []
    first, rest = adjusted[: len(pairs)], iter(adjusted[len(pairs) :])
    made = []
    for (comparison, values), p, other in zip(pairs, first, others, strict=True):
        other_p = None if other is None else next(rest)
        made.append(Tested(comparison, values, p, other_p, _verdict(claim.kind, comparison, values, p, other_p)))
    return made


def overall(tested: list[Tested]) -> str:
    """Return the verdict about a claim from those about its comparisons."""
    if not tested:
        return "not run"
    found = VERDICTS.get(frozenset(each.verdict for each in tested), "contradictory")
    return found if any(each.shown == "refuted" for each in tested) else found.replace("refuted", IN_SIZE)


def _verdict(kind: str, comparison: Comparison, found: dict[str, Any], p: float, other_p: float | None) -> str:
    if kind == "question":
        return "different" if p < LEVEL else "undecided"
    if kind == "similar":
        assert other_p is not None
        return "supported" if other_p < LEVEL else "refuted" if p < LEVEL else "undecided"
    if p < LEVEL:
        return "supported" if found["difference"] > 0 else "refuted"
    if comparison.paper is None or other_p is None or other_p >= LEVEL:
        return "undecided"
    return "refuted" if 100 * found["difference"] < comparison.paper else "undecided"


def _other_p(kind: str, comparison: Comparison, found: dict[str, Any]) -> float | None:
    """Return the p-value of the second test of a comparison, or None if it has only one test."""
    difference, error, freedom = found["difference"], found["error"], found["freedom"]
    if kind == "similar":
        inside = MARGIN - abs(difference)  # the larger p-value of the two one-sided tests
        return float(t.sf(inside / error, freedom)) if error else float(inside <= 0)
    if kind == "question" or comparison.paper is None:
        return None
    apart = abs(difference - comparison.paper / 100)
    return float(2 * t.sf(apart / error, freedom)) if error else float(apart == 0)


def shown_p(p: float | None) -> str:
    """Return a p-value with three digits."""
    return "" if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def _section(claim: Claim, tested: list[Tested], found: dict[str, Any]) -> str:
    """Return the section of a claim."""
    wanted = len(claim.comparisons)
    missing = f" {wanted - len(tested)} of {wanted} comparisons have not run." if len(tested) < wanted else ""
    if claim.kind == "question":
        different = [each for each in tested if each.verdict == "different"]
        named = "; ".join(_named(each) for each in different) or "none"
        head, details = "No claim.", f"Significant differences after Holm's correction: {named}.{missing}"
    else:
        head = f"{overall(tested).capitalize()}."
        details = f"Comparisons: {_counts(tested)}. {_details(claim, tested)}{missing}"
    return fill(
        HERE / "template-claim.md",
        title=claim.title,
        paper=claim.paper,
        place=claim.place,
        text=claim.text,
        verdict=head,
        details=details,
        table="\n\n".join(
            part for part in (_comparison_table(claim, tested), _means_table(claim, tested, found)) if part
        ),
    )


def _details(claim: Claim, tested: list[Tested]) -> str:
    """Return which comparisons are decided, and what the others could have found."""
    parts = []
    for verdict in ("supported", "refuted", IN_SIZE):
        named = [_named(each) for each in tested if each.shown == verdict]
        if named:
            parts.append(f"{verdict.capitalize()}: {'; '.join(named)}.")
    for data in dict.fromkeys(each.comparison.data.removesuffix("-b") for each in tested):
        sizes = [100 * each.found["detectable"] for each in tested if each.comparison.data.removesuffix("-b") == data]
        span = f"{min(sizes):.2f}" if len(sizes) == 1 else f"{min(sizes):.2f} to {max(sizes):.2f}"
        parts.append(f"Detectable on {data}: {span} points.")
    return " ".join(parts)


def _named(each: Tested) -> str:
    first, second = each.comparison.names
    where = f"{each.comparison.data}, {each.comparison.model}"
    return f"{first} - {second} = {100 * each.found['difference']:+.2f} ({where})"


def _counts(tested: list[Tested]) -> str:
    counts = Counter(each.shown for each in tested)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("supported", "refuted", IN_SIZE, "undecided"))


def _comparison_table(claim: Claim, tested: list[Tested]) -> str:
    """Return the table of the comparisons of a claim."""
    if not tested:
        return ""
    several = len({each.comparison.metric for each in tested}) > 1
    sized = any(each.comparison.paper is not None for each in tested)
    similar, asked = claim.kind == "similar", claim.kind == "question"
    head = ["data", "ranker", "a", "b", *(["metric"] if several else []), "mean a", "mean b", "a - b", "95% interval"]
    head += ["p (Holm)", *(["paper's a - b", "p (paper's)"] if sized else []), *(["p (1 point)"] if similar else [])]
    head += ["detectable", *([] if asked else ["verdict"])]
    lines = []
    for each in tested:
        comparison, found = each.comparison, each.found
        low, high = found["interval"]
        line = [comparison.data, comparison.model, *comparison.names]
        line += [f"`{comparison.metric}`"] if several else []
        line += [f"{100 * mean:.2f}" for mean in found["means"]]
        line += [f"{100 * found['difference']:+.2f}", f"{100 * low:+.2f} to {100 * high:+.2f}", shown_p(each.p)]
        if sized:
            line += ["" if comparison.paper is None else f"{comparison.paper:+.2f}", shown_p(each.other_p)]
        line += [shown_p(each.other_p)] if similar else []
        line += [f"{100 * found['detectable']:.2f}", *([] if asked else [each.shown])]
        lines.append(line)
    where = "" if several else f"Metric: `{tested[0].comparison.metric}`.\n\n"
    return where + table(head, lines)


def _means_table(claim: Claim, tested: list[Tested], found: dict[str, Any]) -> str:
    """Return the means of all rows of the first study of a claim, if this claim is the first one about the study."""
    first = {}
    for each in claims():
        first.setdefault(each.comparisons[0].better[0].study, each.key)
    study = claim.comparisons[0].better[0].study
    if first[study] != claim.key or study not in found["studies"] or study == "leaderboard":  # it has its own page
        return ""
    rows = found["studies"][study]["rows"]
    metrics = list(rows[0]["means"])
    lines = [
        [
            row["data"],
            row["model"],
            row["loss"],
            str(row["seeds"]),
            *(f"{100 * row['means'][each]:.2f}" for each in metrics),
        ]
        for row in rows
    ]
    title = f"All rows of the recipe [{study}](../../src/rankgrad/recipes/{study}.yaml):"
    return f"{title}\n\n" + table(["data", "ranker", "loss", "seeds", *(f"`{metric}`" for metric in metrics)], lines)


def paper_tables(studies: dict[str, Any]) -> str:
    """Return the tables of our numbers and those of the papers, on MQ2008."""
    parts = []
    for name, model, study, our_model, renamed in PAPERS:
        source = published.load_published(name)
        digits = 2 if source.scale == 100 else 3
        lines: dict[str, dict[str, str]] = {}
        gaps = []
        for row in source.rows:
            mean = _our_mean(studies, study, our_model, renamed.get(row.loss, row.loss), row.metric)
            if (row.data, row.model) == ("MQ2008", model) and row.value is not None and mean is not None:
                ours = source.scale * mean
                gaps.append(ours - row.value)
                text = f"{ours:.{digits}f} / {row.value:.{digits}f} ({ours - row.value:+.{digits}f})"
                lines.setdefault(row.loss, {})[row.metric] = text
        metrics = list(dict.fromkeys(metric for cells in lines.values() for metric in cells))
        if lines:
            above = sum(gap > 0 for gap in gaps)
            shown = [[loss, *(cells.get(metric, "") for metric in metrics)] for loss, cells in lines.items()]
            parts.append(
                fill(
                    HERE / "template-paper.md",
                    paper=source.paper.partition(":")[0],
                    paper_table=source.table,
                    ranker=model,
                    ours=f"{our_model} of `{study}`",
                    count=str(len(gaps)),
                    above=str(above),
                    below=str(len(gaps) - above),
                    table=table(["loss", *(f"`{metric}`" for metric in metrics)], shown),
                )
            )
    return "\n".join(parts)


def _our_mean(studies: dict[str, Any], study: str, model: str, loss: str, metric: str) -> float | None:
    """Return our mean of a metric on MQ2008, or None.

    The leaderboard counts 0 for a query without a relevant document; where a paper counts 1, their share is added.
    """
    if (study, loss) == ("leaderboard", NEURAL) and model == CONTEXT_AWARE:
        model = TANH
    for row in studies.get(study, {}).get("rows", ()):
        if (row["data"], row["model"], row["loss"]) == ("MQ2008", model, loss):
            if metric in row["means"]:
                return float(row["means"][metric])
            zero = metric.replace("(empty='one')", "")
            return (
                row["means"][zero] + EMPTY if metric.startswith("nDCG(empty='one')") and zero in row["means"] else None
            )
    return None


def _not_run(untested: list[Claim], studies: dict[str, Any]) -> str:
    """Return the list of claims and recipes without results, and of parts of the papers that no recipe has."""
    claimed = [f"{claim.paper}, {claim.place}: *{claim.title}*" for claim in untested]
    recipes = [name for name in shipped_recipes() if name.startswith("claims-") and name not in studies]
    links = [f"The recipe [{name}](../../src/rankgrad/recipes/{name}.yaml)." for name in recipes]
    return "\n".join(f"- {line}" for line in (*claimed, *links, *OTHER_PARTS))


def _studies(studies: dict[str, Any]) -> str:
    lines = []
    for study, facts in studies.items():
        machines, commits = ", ".join(facts["machines"]), ", ".join(facts["commits"])
        missing = f" Missing runs: {facts['missing']}." if facts["missing"] else ""
        cost = f"{facts['runs']:,} runs, {facts['seconds'] / 60:.0f} minutes of training in total"
        lines.append(f"- `{study}`: {cost}, on {machines}; commit {commits}.{missing}")
    return "\n".join(lines) or paragraph("No study has run.")


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return "".join(letter for letter in title.lower() if letter.isalnum() or letter in "- _").replace(" ", "-")
