"""Page about the study on text: its sentences follow from the cells, including results that nobody hoped for."""

import importlib
import sys

import numpy as np
import pytest
from paths import ROOT

from rankgrad.experiments.seed_variance import RunValues
from rankgrad.experiments.statistics import holm, paired_t

RNG = np.random.default_rng(0)
BASE = RNG.uniform(0.3, 0.5, 40)
NOISE = RNG.normal(0, 0.01, (4, 40))


@pytest.fixture
def study(monkeypatch):
    """The generator of the page."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    return importlib.import_module("pages.text_study")


def columns(**losses):
    """Values of BM25, the untrained encoder, and a bi-encoder with these losses."""
    found = {("bm25", "", False): BASE - 0.05 + NOISE[0], ("untrained", "", False): BASE}
    return runs(found | {("bi_encoder", loss, False): values for loss, values in losses.items()})


def runs(found):
    """Values of one seed."""
    return {key: RunValues(values[None]) for key, values in found.items()}


def cells(seeds):
    """Cells of a bi-encoder with one loss: two collections, five folds, and these seeds of each fold."""
    keys = ("collection", "system", "loss", "seed", "fold")
    rows = [(name, seed, fold) for name in ("cranfield", "vaswani") for fold in range(1, 6) for seed in seeds(fold)]
    return [dict(zip(keys, (name, "bi_encoder", "hinge", seed, fold), strict=True)) for name, seed, fold in rows]


def row_of(text, against):
    line = next(line for line in text.splitlines() if line.startswith(f"| bi-encoder | {against} |"))
    return [entry.strip() for entry in line.strip("|").split("|")]


def test_a_significantly_worse_loss_is_listed_as_worse(study):
    found = columns(good=BASE + 0.05 + NOISE[1], bad=BASE - 0.05 + NOISE[2], same=BASE + NOISE[3] - NOISE[3].mean())
    assert row_of(study.comparisons(found), "as it comes")[3:] == ["1 of 3", "good", "bad"]


def test_a_p_value_of_zero_is_kept(study):
    steady = np.full(40, 0.25)
    found = {("bm25", "", False): steady - 0.125, ("untrained", "", False): steady}
    found |= {("bi_encoder", "shifted", False): steady + 0.125, ("bi_encoder", "equal", False): steady.copy()}
    found = runs(found)
    assert study.corrected(found, "untrained")["bi_encoder", "shifted"] == 0.0
    assert row_of(study.comparisons(found), "as it comes")[3:] == ["1 of 2", "shifted", "none"]


def test_p_values_are_corrected_as_in_statistics(study):
    found = columns(a=BASE + 0.004 + NOISE[1], b=BASE + 0.003 + NOISE[2], c=BASE + 0.002 + NOISE[3])
    others = [key for key in found if key[0] != "untrained"]
    expected = holm([paired_t(found[key].values[0], BASE).p for key in others])
    ours = study.corrected(found, "untrained")
    assert ours == pytest.approx({key[:2]: p for key, p in zip(others, expected, strict=True)}, rel=1e-9)


def test_the_gaps_between_losses_and_between_encoders(study):
    found = columns(hinge=BASE + 0.05 + NOISE[1], softmax=BASE + NOISE[2])
    cross = {
        ("cross_encoder", loss, False): RunValues(found["bi_encoder", loss, False].values + 0.01)
        for loss in ("hinge", "softmax")
    }
    text = study.between_losses(found | cross)
    assert "bi-encoder: hinge minus softmax is +" in text
    assert "cross-encoder minus bi-encoder is +1.0 on average (not tested)" in text


def test_adding_bm25_counts_the_rankers_that_become_worse(study):
    found = columns(hinge=BASE, softmax=BASE)
    both = {("bi_encoder", "hinge", True): BASE - 0.03 + NOISE[1], ("bi_encoder", "softmax", True): BASE + NOISE[2]}
    found |= runs(both)
    text = study.adding_bm25(found)
    assert "of 2 means are lower" in text
    assert "without correction: 1 lower and 0 higher; with Holm's correction: 1 lower and 0 higher." in text


def test_missing_seeds_are_told(study):
    assert "Not run" not in study.seeds_of(cells(lambda fold: range(3)))
    text = " ".join(study.seeds_of(cells(lambda fold: range(2 if fold == 5 else 3))).split())
    assert text.startswith("3 seeds: bi-encoder with hinge.")
    assert text.endswith("Not run: seed 2 of fold 5 (2 cells).")


def test_one_seed_needs_no_warning(study):
    assert study.seeds_of(cells(lambda fold: [0])) == "Each ranker has one seed."
