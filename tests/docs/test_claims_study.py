"""The study of the papers' claims: rows and printed numbers exist, and numbers come from the results."""

import json
import re
import sys
from dataclasses import replace

import made_results
import pytest
from test_studies import build

from rankgrad.experiments import load_recipe
from rankgrad.experiments.recipes.shipped import shipped_recipes
from rankgrad.experiments.runs.results import read_results
from rankgrad.experiments.seed_variance import RunValues, compare_runs
from rankgrad.experiments.tables import published


@pytest.fixture(scope="module")
def tables():
    return build.script("claims", "claim_tables")


@pytest.fixture(scope="module")
def listed(tables):
    return sys.modules["claim_list"]


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


def test_the_numbers_of_the_page_follow_from_the_summaries(listed, tables):
    """One claim is computed again from the file in the repository."""
    (claim,) = [each for each in listed.claims() if each.key == "binary-labels"]
    again, stored = (
        tables.numbers(tables.STUDIES, [claim])["claims"][claim.key],
        json.loads(tables.TABLE.read_text())["claims"],
    )
    for new, old in zip(again, stored[claim.key], strict=True):
        assert new["interval"] == pytest.approx(old["interval"], rel=1e-6)
        assert new["p"] == pytest.approx(old["p"], rel=1e-6)
