"""Page about ListMLE with tied labels, from `results.summary.xz`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pages.measurements import read
from pages.templates import fill, paragraph, table
from torch import Tensor

from rankgrad import backend, data, losses
from rankgrad.data.synthetic import achievable
from rankgrad.experiments.runs.summary import RowSummary, Summary, read_summary
from rankgrad.experiments.seed_variance import RunComparison, compare_runs
from rankgrad.experiments.statistics import adjust

HERE = Path(__file__).parent
LEVEL = 0.05
EXACT, BRESLOW, RANDOM = "Exact", "Breslow", "Random order"
# Name of each form in the study: value of the option `ties`, and description.
FORMS = {
    EXACT: ("exact", "probability of all orders that agree with the grades; numerical integral"),
    BRESLOW: ("together", "the default: a document competes with all documents whose grade is not higher"),
    "Efron": ("efron", "as Breslow's, but the l-th factor of d tied documents leaves out l/d of their sum"),
    RANDOM: ("random", "a random order of tied documents, drawn at each step; as in allRank, and in Rax with a key"),
    "File order": ("position", "tied documents in the order of the file, as in the formula without a rule for ties"),
}
GRADIENT_LISTS = 100  # lists for which gradients are compared
GENERATED = "synthetic:lists=900,grades=3,mean_length=20,seed=1"


@dataclass(frozen=True)
class Tested:
    """Difference of a row to another row with the same data set and ranker, and its adjusted p-value."""

    row: RowSummary
    found: RunComparison
    adjusted: float

    @property
    def significant(self) -> bool:
        """True if the difference is significant after Holm's correction."""
        return self.adjusted < LEVEL


def page() -> str:
    """Return the page. Raise an error if the study does not show what `docs/when.yaml` says about it."""
    study = read_summary(HERE / "results.summary.xz")
    tests = [each for name in _names(study) for each in against_exact(study, name)]
    if any(each.significant and each.found.difference > 0 for each in tests):
        raise ValueError(
            "docs/when.yaml must not say that no form of ListMLE is significantly better than the exact one"
        )
    return page_of(study)


def page_of(study: Summary) -> str:
    """Return the page for a summary of the study."""
    names = _names(study)
    models = list(dict.fromkeys(row.model for row in study.rows))
    tests = {name: against_exact(study, name) for name in names}
    breslow = breslow_with_random(study)
    forms = [[form, f"`{ties}`", text] for form, (ties, text) in FORMS.items()]
    missing = f"**{study.missing} runs are missing: the study is not complete.**" if study.missing else ""
    return fill(
        HERE / "template.md",
        forms=table(["form", "`ties`", "treatment of ties"], forms),
        datasets=str(len(names)),
        rankers=str(len(models)),
        losses=str(len(FORMS)),
        seeds=str(study.rows[0].values.seeds),
        trials=str(study.rows[0].trials),
        comparisons=str(len(tests[names[0]])),
        runs=f"{study.runs:,}",
        minutes=f"{study.seconds / 60:.0f}",
        machines="; ".join(f"{name} ({count:,} runs)" for name, count in study.machines.items()),
        commits=", ".join(study.commits),
        missing=missing,
        verdict=paragraph(verdict(tests)),
        findings="\n".join([*(finding(name, tests[name]) for name in names), *form_findings(tests), cost(study)]),
        tables="\n\n".join(f"### {title(name)}\n\n{data_table(study, name, tests[name])}" for name in names),
        breslow_sentence=paragraph(breslow_sentence(breslow)),
        breslow_table=breslow_table(breslow),
        edges=edges(study),
        **lowest_grade(read(HERE / "lowest-grade.json")),
        **gradients(),
    )  # fmt: skip


def _names(study: Summary) -> list[str]:
    return list(dict.fromkeys(row.data for row in study.rows))


def title(name: str) -> str:
    """Return the name of a data set in headings."""
    if not name.startswith("synthetic"):
        return name
    options = dict(part.split("=") for part in name.partition(":")[2].split(","))
    return f"Generated lists, {options['grades']} grades"


def against_exact(study: Summary, name: str) -> list[Tested]:
    """Compare all forms with the exact one, for all rankers on a data set."""
    rows = [row for row in study.rows if row.data == name and row.loss != EXACT]
    found = [compare_runs(row.values, study.row(name, row.model, EXACT).values) for row in rows]
    return _tested(rows, found)


def breslow_with_random(study: Summary) -> list[Tested]:
    """Compare Breslow's form with random order, for all data sets and rankers."""
    rows = [row for row in study.rows if row.loss == BRESLOW]
    return _tested(rows, [compare_runs(row.values, study.row(row.data, row.model, RANDOM).values) for row in rows])


def _tested(rows: list[RowSummary], found: list[RunComparison]) -> list[Tested]:
    adjusted = adjust([one.p for one in found], "holm").tolist()
    return [Tested(*each) for each in zip(rows, found, adjusted, strict=True)]


def verdict(tests: dict[str, list[Tested]]) -> str:
    """Return the answer of the study: is another form better than the exact one, or is the exact one better?"""
    every = [each for part in tests.values() for each in part]
    better = [each for each in every if each.significant and each.found.difference > 0]
    default = [each for each in every if each.row.loss == BRESLOW]
    gains = [each for each in default if each.significant and each.found.difference < 0]
    named = [f"{title(each.row.data)} with {each.row.model} ({-100 * each.found.difference:+.2f})" for each in gains]
    first = f"No other form is significantly better than the exact one in any of the {len(every)} comparisons."
    if better:
        first = (
            f"In {len(better)} of {len(every)} comparisons, another form is significantly better than the exact one."
        )
    return (
        f"**{first}** The exact form is significantly better "
        f"than Breslow's form, the default, in {len(gains)} of {len(default)} comparisons"
        f"{': ' + '; '.join(named) if named else ''}."
    )


def finding(name: str, tests: list[Tested]) -> str:
    """Return the finding about one data set."""
    parts = []
    for sign, word in ((1, "better"), (-1, "worse")):
        rows = [each for each in tests if each.significant and sign * each.found.difference > 0]
        listed = "; ".join(f"{each.row.loss} with {each.row.model} ({_points(each)})" for each in rows)
        parts.append(f"significantly {word} than the exact form: {listed or 'none'}")
    detectable = sorted(100 * each.found.detectable for each in tests)
    return f"- **{title(name)}**: {'; '.join(parts)}. Detectable: {detectable[0]:.2f} to {detectable[-1]:.2f}."


def form_findings(tests: dict[str, list[Tested]]) -> list[str]:
    """Return one finding per form: its differences to the exact form over all data sets and rankers."""
    found = []
    for form in (form for form in FORMS if form != EXACT):
        every = [each for part in tests.values() for each in part if each.row.loss == form]
        gaps = [100 * each.found.difference for each in every]
        better, worse = (
            sum(each.significant and sign * each.found.difference > 0 for each in every) for sign in (1, -1)
        )
        found.append(
            f"- **{form}**: {min(gaps):+.2f} to {max(gaps):+.2f} relative to the exact form, "
            f"{sum(gaps) / len(gaps):+.2f} on average; of {len(gaps)} comparisons, {better} significantly better and "
            f"{worse} significantly worse."
        )  # fmt: skip
    return found


def cost(study: Summary) -> str:
    """Return the finding about the time per epoch, relative to Breslow's form."""
    parts = []
    for form in (form for form in FORMS if form != BRESLOW):
        ratios = [_relative_time(study, row) for row in study.rows if row.loss == form]
        parts.append(f"{form} {min(ratios):.1f} to {max(ratios):.1f}")
    return f"- **Time per epoch**, relative to Breslow's form, on one CPU core: {'; '.join(parts)}."


def edges(study: Summary) -> str:
    """Return how often validation chose the smallest or the largest learning rate."""
    rates = study.recipe.search["lr"]
    parts = []
    for name in _names(study):
        for model in dict.fromkeys(row.model for row in study.rows):
            rows = [row for row in study.rows if (row.data, row.model) == (name, model)]
            chosen = [fold["lr"] for row in rows for fold in row.chosen]
            share = sum(rate in (min(rates), max(rates)) for rate in chosen) / len(chosen)
            parts.append(f"{title(name)} with {model} {100 * share:.0f}%")
    return "; ".join(parts)


def data_table(study: Summary, name: str, tests: list[Tested]) -> str:
    """Return the table of a data set."""
    best = achievable(data.load(name).test, study.metric) if name.startswith("synthetic") else None
    lines = []
    by_row = {(each.row.model, each.row.loss): each for each in tests}
    for row in (row for row in study.rows if row.data == name):
        each = by_row.get((row.model, row.loss))
        tested = ["", "", "", ""] if each is None else _columns(each)
        share = [] if best is None else [f"{100 * row.values.mean / best:.1f}%"]
        line = [row.model, row.loss, f"{100 * row.values.mean:.2f}", *tested, *share]
        lines.append([*line, f"{_relative_time(study, row):.1f}"])
    head = ["ranker", "form", study.metric, "to exact", "95% interval", "p (Holm)", "detectable"]
    share = [] if best is None else ["share of the achievable"]
    return table([*head, *share, "time per epoch"], lines)


def breslow_sentence(tests: list[Tested]) -> str:
    """Return the finding about Breslow's form and random order."""
    gaps = [100 * each.found.difference for each in tests]
    better, worse = (sum(each.significant and sign * each.found.difference > 0 for each in tests) for sign in (1, -1))
    higher = sum(gap > 0 for gap in gaps)
    return (
        f"Breslow's form has the higher mean in {higher} of {len(gaps)} comparisons. It is significantly better in "
        f"{better} and significantly worse in {worse} of them (Holm over all). The differences are {min(gaps):+.2f} to "
        f"{max(gaps):+.2f}, on average {sum(gaps) / len(gaps):+.2f}."
    )


def breslow_table(tests: list[Tested]) -> str:
    """Return the table of Breslow's form and random order."""
    lines = [[title(each.row.data), each.row.model, *_columns(each)] for each in tests]
    return table(["data set", "ranker", "Breslow - random", "95% interval", "p (Holm)", "detectable"], lines)


def gradients() -> dict[str, str]:
    """Return the table of cosines between gradients, at equal scores and at scores in the best order."""
    found = data.load(GENERATED).test
    assert found.best is not None
    offsets = torch.as_tensor(found.offsets[: GRADIENT_LISTS + 1])
    documents, lengths = int(offsets[-1]), offsets.diff().tolist()
    labels = torch.as_tensor(found.labels[:documents], dtype=torch.float64)
    best = torch.as_tensor(found.best[:documents], dtype=torch.float64)
    above = [part > part.min() for part in labels.split(lengths)]  # above the lowest grade of the list
    ordered = [place for place, part in enumerate(above) if bool(part.any())]
    forms = [form for form in FORMS if form not in (EXACT, "File order")]
    lines = {form: [form] for form in forms}
    for scores in (0.0 * best, best, 3.0 * best):
        exact = _slopes(EXACT, scores, labels, offsets).split(lengths)
        for form in forms:
            own = _slopes(form, scores, labels, offsets).split(lengths)
            every = [torch.cosine_similarity(own[l], exact[l], 0) for l in ordered]
            upper = [torch.cosine_similarity(own[l][above[l]], exact[l][above[l]], 0) for l in ordered]
            lines[form].append(f"{float(torch.stack(every).mean()):.2f} ({float(torch.stack(upper).mean()):.2f})")
    head = ["form", "equal scores", "the best scores", "the best scores x 3"]
    return {"gradient_lists": str(len(ordered)), "gradients": table(head, [*lines.values()])}


def _slopes(form: str, scores: Tensor, labels: Tensor, offsets: Tensor) -> Tensor:
    """Return the gradient of a form of the loss, `(documents,)`."""
    leaf = scores.clone().requires_grad_()
    noise = torch.rand(len(labels), generator=torch.Generator().manual_seed(0)) if form == RANDOM else None
    with backend("plain"):
        value = losses.listmle(leaf, labels, offsets=offsets, ties=FORMS[form][0], noise=noise, reduction="sum")
    return torch.autograd.grad(value, leaf)[0]


def lowest_grade(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the sentence and the table about forms without the terms of the lowest grade."""
    counts = {}
    for against in (BRESLOW, EXACT):
        some = [row for row in rows if row["against"] == against]
        found = [row for row in some if row["adjusted"] < LEVEL]
        better = sum(row["difference"] > 0 for row in found)
        counts[against] = (
            f"significantly better in {better} and significantly worse in {len(found) - better} of {len(some)}"
        )
    lines = []
    for row in rows:
        low, high = (100 * end for end in row["interval"])
        gap = [f"{100 * row['difference']:+.2f}", f"{low:+.2f} to {high:+.2f}", _p(row["adjusted"])]
        mean, detectable = f"{100 * row['mean']:.2f}", f"{100 * row['detectable']:.2f}"
        lines.append([title(row["data"]), row["form"], mean, row["against"], *gap, detectable])
    head = ["data set", "form", "nDCG@10", "compared with", "difference", "95% interval", "p (Holm)", "detectable"]
    sentence = (
        f"Forms without the terms of the lowest grade are {counts[BRESLOW]} comparisons with Breslow's form, and "
        f"{counts[EXACT]} comparisons with the exact form."
    )
    return {"lowest_sentence": paragraph(sentence), "lowest_table": table(head, lines)}


def _relative_time(study: Summary, row: RowSummary) -> float:
    own, reference = row.epoch_seconds, study.row(row.data, row.model, BRESLOW).epoch_seconds
    return own / reference if reference else float("nan")


def _columns(each: Tested) -> list[str]:
    """Return difference, interval, p-value and detectable difference of a comparison."""
    low, high = (100 * end for end in each.found.interval)
    return [_points(each), f"{low:+.2f} to {high:+.2f}", _p(each.adjusted), f"{100 * each.found.detectable:.2f}"]


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _points(each: Tested) -> str:
    return f"{100 * each.found.difference:+.2f}"
