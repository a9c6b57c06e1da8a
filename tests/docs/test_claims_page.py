"""The page docs/claims.md: verdicts follow the rule, rows and printed numbers exist, numbers come from the results."""

import importlib
import re
import sys
from dataclasses import replace

import made_results
import pytest
from paths import ROOT

from rankgrad.experiments import load_recipe
from rankgrad.experiments.recipes.shipped import shipped_recipes
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.seed_variance import RunValues, compare_runs
from rankgrad.experiments.statistics import holm
from rankgrad.experiments.tables import published


def _module(name):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def page():
    return _module("pages.claims")


@pytest.fixture(scope="module")
def listed():
    return _module("pages.claim_list")


@pytest.fixture(scope="module")
def tables():
    return _module("claim_tables")


@pytest.fixture
def claim(listed):
    """A claim with one comparison per printed difference."""

    def made(*printed, kind="better"):
        pairs = tuple(listed.pair("s", "MQ2008", "MLP", "A", "B", "nDCG", size) for size in printed)
        return listed.Claim("key", "title", "paper", "place", kind, "text", pairs)

    return made


def found(difference, error=0.001, p=None):
    test = compare_runs(RunValues([[0.5, 0.4, 0.6]]), RunValues([[0.4, 0.4, 0.4]]))
    p = 2e-9 if p is None and abs(difference) > 5 * error else 0.5 if p is None else p
    known = {"means": [0.5, 0.5], "interval": [0.0, 0.0], "detectable": test.detectable}
    return {"difference": difference, "error": error, "freedom": 100.0, "p": p, **known}


@pytest.mark.parametrize(
    ("kind", "printed", "difference", "error", "verdict"),
    [
        ("better", None, 0.01, 0.001, "supported"),
        ("better", None, -0.01, 0.001, "refuted"),
        ("better", None, 0.001, 0.001, "undecided"),
        ("better", 5.0, 0.001, 0.001, "refuted"),  # five points can be rejected
        ("better", 5.0, 0.01, 0.001, "supported"),  # the claimed sign counts first
        ("better", 0.2, 0.001, 0.001, "undecided"),  # two tenths of a point cannot be rejected
        ("better", 0.1, 0.05, 0.02, "undecided"),  # larger than the paper's, but not significant
        ("similar", None, 0.001, 0.001, "supported"),
        ("similar", None, 0.02, 0.001, "refuted"),
        ("similar", None, 0.006, 0.001, "supported"),  # not 0, but smaller than a point
        ("similar", None, 0.001, 0.02, "undecided"),
        ("question", None, 0.02, 0.001, "different"),
    ],
)
def test_verdicts_follow_the_rule(page, claim, kind, printed, difference, error, verdict):
    (tested,) = page.judge(claim(printed, kind=kind), [found(difference, error)])
    assert tested.verdict == verdict


def test_p_values_are_corrected_over_both_kinds_of_tests(page, claim):
    values = [found(0.0, p=0.02), found(0.0, p=0.03)]
    one, two = page.judge(claim(None, 0.3), values)
    size = 2 * page.t.sf(3.0, 100)
    wanted = holm([0.02, 0.03, size])
    assert [one.p, two.p, two.other_p] == pytest.approx(wanted.tolist())
    assert one.other_p is None


def test_a_comparison_that_has_not_run_is_left_out(page, claim):
    assert page.judge(claim(None, None), [None, found(0.01)])[0].verdict == "supported"
    assert page.overall(page.judge(claim(None), [None])) == "not run"


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.01, 0.02], "supported"),
        ([0.01, 0.001], "partly supported"),
        ([-0.01, 0.001], "partly refuted"),
        ([-0.01, 0.01, 0.001], "contradictory"),
        ([0.001], "undecided"),
    ],
)
def test_the_verdict_of_a_claim(page, claim, differences, verdict):
    tested = page.judge(claim(*[None] * len(differences)), [found(each) for each in differences])
    assert page.overall(tested) == verdict


def test_a_refutation_by_size_is_named_so(page, claim):
    by_size, by_sign = page.judge(claim(5.0, None), [found(0.001), found(-0.01)])
    assert (by_size.shown, by_sign.shown) == ("refuted in size", "refuted")
    assert page.overall([by_size]) == "refuted in size"
    assert page.overall([by_size, by_sign]) == "refuted"


def test_p_has_three_digits(page):
    assert [page.shown_p(p) for p in (None, 0.0004, 0.0005, 0.04999, 1.0)] == ["", "<0.001", "0.001", "0.050", "1.000"]


def test_every_row_of_a_claim_is_a_row_of_its_recipe(listed):
    recipes = {row.study: None for claim in listed.claims() for each in claim.comparisons for row in each.rows}
    known = {study: load_recipe(study) for study in recipes}
    rows = {
        (study, source.label, row.model, row.loss)
        for study, recipe in known.items()
        for source in recipe.data
        for row in recipe.rows(source)
    }
    for claim in listed.claims():
        for each in claim.comparisons:
            for row in each.rows:
                assert (row.study, row.data, row.model, row.loss) in rows
                assert each.metric in known[row.study].metrics


def test_the_rule_is_in_the_notes_of_every_recipe():
    names = [name for name in shipped_recipes() if name.startswith("claims-")]
    assert len(names) == 7
    for name in names:
        assert "Rule, written before the results" in load_recipe(name).notes


def test_numbers_in_the_texts_are_printed_in_the_papers(listed):
    values = {
        f"{100 / table.scale * row.value:.{2 if table.scale == 100 else 1}f}"
        for table in map(published.load_published, published.names())
        for row in table.rows
        if row.value is not None
    }
    read = [number for claim in listed.claims() for number in re.findall(r"\b\d\d\.\d+\b", claim.text)]
    assert len(read) > 60
    assert not set(read) - values


def test_printed_differences(listed):
    metric = "nDCG(empty='one')@10"
    assert listed.printed("learndcg-table1", "MQ2008", "MLP", "Learned", "Fixed", metric) == 5.15
    # OHSUMED is not in the paper: the smallest difference of its four sets.
    assert listed.printed("learndcg-table1", "OHSUMED", "MLP", "Learned", "Fixed", metric) == 2.63
    # LambdaLoss@1 is ahead on two sets and behind on the third.
    assert listed.printed("lambdaloss-table1", "MQ2008", "DNN", "LambdaLoss@1", "LambdaLoss", "nDCG") is None
    # SmoothI prints no percent.
    smooth = "nDCG(gain='linear', ties='trec')@5"
    assert listed.printed("smoothi-table1", "MQ2008", "DNN", "SmoothI", "ListNet", smooth) == 5.5
    assert [each.paper for each in listed.COMPARED["binary-labels"]()] == [0.15, None, None, 0.15, None, None]


def test_numbers_come_from_the_results(listed, tables, tmp_path, monkeypatch):
    made_results.make(tmp_path / "made", data=made_results.DATA[:1], rates=(0.001,), seeds=(0, 1, 2), scores=False)
    recipe = load_recipe(tmp_path / "made" / "recipe.yaml")
    monkeypatch.setattr(tables, "load_recipe", lambda name: recipe)
    (source,), metric = recipe.data, made_results.METRICS[1]
    plain = listed.pair("made", source.label, "MLP", "LearnDCG", "MSE", metric)
    gap = replace(plain, better=plain.rows, worse=tuple(replace(row, model="Linear") for row in plain.rows))
    absent = listed.pair("absent", source.label, "MLP", "LearnDCG", "MSE", metric)
    claim = listed.Claim("key", "title", "paper", "place", "better", "text", (plain, gap, absent))
    assert tables.studied([claim]) == {"made": [metric], "absent": [metric]}
    tables.write_summaries(tmp_path, "made", [metric])
    tables.write_summaries(tmp_path, "absent", [metric])
    got = tables.numbers(tmp_path, [claim])
    runs = {}
    for run in read_results(tmp_path / "made", recipe).final():
        runs.setdefault((run.cell.model, run.cell.loss), []).append(run)
    values = {row: RunValues.of(some, metric) for row, some in runs.items()}
    first, second, third = got["claims"]["key"]
    wanted = compare_runs(values["MLP", "LearnDCG"], values["MLP", "MSE"])
    for name in ("difference", "error", "p", "detectable"):
        assert first[name] == pytest.approx(getattr(wanted, name), abs=1e-4)
    sides = [values[model, "LearnDCG"].mean - values[model, "MSE"].mean for model in ("MLP", "Linear")]
    assert second["means"] == pytest.approx(sides, abs=1e-4)
    assert third is None
    assert list(got["studies"]) == ["made"]
    monkeypatch.setattr(tables, "SETS", (source.label,))
    got = tables.numbers(tmp_path, [claim])
    (mlp,) = [row for row in got["studies"]["made"]["rows"] if (row["model"], row["loss"]) == ("MLP", "MSE")]
    assert mlp["means"][metric] == pytest.approx(values["MLP", "MSE"].mean, abs=1e-4)
    assert mlp["seeds"] == 3


def test_the_page_shows_what_the_table_has(page, listed, monkeypatch):
    """With results of one study only, its verdicts are shown, and all others are named as not run."""
    values = found(0.02)
    compared = {
        claim.key: [values if each.better[0].study == "leaderboard" else None for each in claim.comparisons]
        for claim in listed.claims()
    }
    row = {
        "data": "MQ2008",
        "model": "Context-Aware Ranker",
        "loss": "ApproxNDCG",
        "seeds": 5,
        "means": {"nDCG@10": 0.5},
    }
    facts = {"runs": 8, "missing": 1, "seconds": 60.0, "commits": {"abc": 8}, "machines": {"here": 8}, "rows": [row]}
    monkeypatch.setattr(page, "read", lambda name: {"claims": compared, "studies": {"leaderboard": facts}})
    text = " ".join(page.page().split())
    assert "tests 3 claims" in text
    assert "**Supported.** Comparisons: 2 supported, 0 refuted, 0 refuted in size, 0 undecided." in text
    assert "4 of 6 comparisons have not run." in text
    assert "| Fixed | 78.06 / 75.21 (+2.85) |" in text  # 28.06% of the queries have no relevant document
    assert "- The recipe [claims-softmax](../src/rankgrad/recipes/claims-softmax.yaml)." in text
    assert "section 6.2, Table 2: *LambdaRank@K is worse than LambdaRank*" in text
    assert "Missing runs: 1." in text


def test_the_numbers_of_the_page_follow_from_the_summaries(listed, tables, page):
    """One claim is computed again from the file in the repository."""
    (claim,) = [each for each in listed.claims() if each.key == "binary-labels"]
    again, stored = tables.numbers(tables.STUDIES, [claim])["claims"][claim.key], page.read("claims")["claims"]
    for new, old in zip(again, stored[claim.key], strict=True):
        assert new["interval"] == pytest.approx(old["interval"], rel=1e-6)
        assert new["p"] == pytest.approx(old["p"], rel=1e-6)
