"""Recipes as a user runs them, on real data: one in its smallest form, all in their quick form."""

import time

import pytest
from paths import ROOT, SOURCE
from programs import program
from tiny_encoder import tiny_encoder

from rankgrad.experiments.recipes.shipped import find_recipe
from rankgrad.experiments.runs.results import read_results
from rankgrad.text import load as load_collection

DATA = ROOT.parent / "shared" / "data"
RECIPES = sorted((SOURCE / "recipes").glob("*.yaml"))

pytestmark = pytest.mark.skipif(not (DATA / "MQ2008").is_dir(), reason="MQ2008 is not there")


def experiment(recipe, form, out, jobs):
    began = time.perf_counter()
    more = []
    if "encoder:" in find_recipe(recipe).read_text(encoding="utf-8"):
        words = load_collection(DATA / "cranfield").documents.texts
        more = ["--set", f"encoder={tiny_encoder(out.parent / 'encoder', words=words)}"]
    going = program("experiment", recipe, f"--{form}", "--out", out, "--data-root", DATA, "--jobs", jobs, *more)
    told, complained = going.communicate()
    assert going.returncode == 0, told + complained
    results = read_results(out)
    assert not results.missing
    assert results.final()
    return told, time.perf_counter() - began


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_quick_form_runs_in_five_minutes(recipe, tmp_path):
    _, seconds = experiment(recipe, "quick", tmp_path / "out", jobs=2)
    assert seconds < 300
