"""The page docs/leaderboard.md: its protocol came first, and its statements follow from the stored values."""

import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
from paths import ROOT

from rankgrad.experiments import load_recipe
from rankgrad.experiments.runs.summary import read_summary
from rankgrad.experiments.seed_variance import TESTS, all_pairs

PAGE = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("pages.leaderboard")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def summary(page):
    return read_summary(page.STUDY)


def test_the_summary_is_complete_and_small(page, summary):
    assert page.STUDY.stat().st_size < 1_000_000
    assert summary.missing == 0
    assert len(summary.rows) == 5 * (3 * 18 + 2 + 7 + 1)
    recipe, ours = load_recipe("leaderboard"), summary.recipe
    changed = {name for name in recipe.raw if recipe.raw[name] != ours.raw.get(name)}
    assert changed <= {"notes", "title"}  # only wording, after the runs
    assert summary.runs == len(recipe.cells_to_tune()) + recipe.final_count


def test_the_leading_group_of_a_table(summary):
    rows = [row for row in summary.rows if (row.data, row.model) == ("MQ2008", "Linear")]
    found = all_pairs([row.values for row in rows])
    section = PAGE.split("## Linear")[1].split("## MLP")[0]
    lines = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in section.splitlines()}
    for place, row in enumerate(rows):
        text = f"{100 * row.values.mean:.2f}"
        assert lines[row.loss][5] == (f"**{text}**" if place in found.leading else text)


def test_the_false_positive_rates(page):
    checks = page.read("leaderboard-aa")["checks"]
    for test in TESTS:
        drawn = checks["all"]["drawn"][test]
        assert drawn["cases"] == 2000
        assert 0.04 <= drawn["found"] / drawn["cases"] <= 0.06
    for test in ("t, queries only", "randomisation, queries only"):
        assert checks["all"]["drawn"][test]["found"] / 2000 > 0.1


def test_shares_of_first_places_sum_to_one():
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        shares = re.findall(r"\| (\d+)% \| \*{0,2}\d\d\.\d\d", section)
        if shares:
            assert sum(map(int, shares)) == pytest.approx(100, abs=len(shares) / 2)


def test_the_protocol_is_older_than_the_results():
    def first(path):
        done = subprocess.run(
            ["git", "-C", ROOT, "log", "--format=%ct", "--diff-filter=A", "--", path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [int(line) for line in done.stdout.split()]

    recipe, results = first("src/rankgrad/recipes/leaderboard.yaml"), first("docs/studies/leaderboard.summary.xz")
    if not recipe or not results:
        pytest.skip("no git history")
    assert np.max(recipe) < np.min(results)
