"""The page docs/auto.md: its Python runs, its options exist, and its findings follow from the stored values."""

import importlib
import re
import sys

import numpy as np
import pytest
from paths import ROOT
from programs import run_here

PAGE = (ROOT / "docs" / "auto.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("pages.auto")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_the_options_of_the_page_exist():
    known = set(re.findall(r"--[a-z-]+", run_here("auto", "--help")))
    of_others = {"--model"}
    assert {word.rstrip("-") for word in re.findall(r"--[a-z][a-z-]+", PAGE)} - of_others <= known


def test_the_bootstrap_draws_queries_and_seeds(page):
    """The interval of a difference that depends only on the seed does not shrink with more queries."""
    seeds = np.array([[0.0], [0.1], [0.2]])
    few, many = (page.compare([seeds + np.zeros((3, n))] * 5, [np.zeros((3, n))] * 5) for n in (10, 100))
    assert few[0] == pytest.approx(10)
    assert few[2] - few[1] == pytest.approx(many[2] - many[1], rel=0.1)
    none = page.compare([np.zeros((3, 20))] * 5, [np.zeros((3, 20))] * 5)
    assert none[3] == 1.0
