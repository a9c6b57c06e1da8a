"""Page about ListMLE with tied labels: its sentences follow from the values of the study."""

import importlib
import sys

import numpy as np
import pytest
from paths import ROOT

from rankgrad.experiments import load_recipe
from rankgrad.experiments.runs.summary import RowSummary, Summary
from rankgrad.experiments.seed_variance import RunValues

FORMS = ("Exact", "Breslow", "Efron", "Random order", "File order")
SECONDS = dict(zip(FORMS, (0.3, 0.1, 0.1, 0.15, 0.1), strict=True))


@pytest.fixture
def pages(monkeypatch):
    """The generator of the page."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    return importlib.import_module("pages.listmle_ties")


def study(missing=0, **gaps):
    """A study of two rankers on one data set, with these differences to the exact form (per ranker and form)."""
    rng = np.random.default_rng(0)
    base, rows = rng.uniform(0.3, 0.5, 200), []
    for model in ("Linear", "MLP"):
        for form in FORMS:
            gap = gaps.get(f"{model}_{form.split()[0]}", 0.0)
            values = RunValues(base + gap + rng.normal(0, 0.01, (4, 200)))
            rows.append(RowSummary("MQ2008", model, form, values, {}, ({"lr": 0.01},), 4, 1.0, SECONDS[form]))
    return Summary(
        load_recipe("listmle-ties"), "nDCG@10", tuple(rows), 100, missing, 600.0, {"abc": 100}, {"a machine": 100}
    )


def test_significant_rows_are_named_and_no_others(pages):
    text = pages.page_of(study(Linear_File=-0.05, MLP_Efron=0.02))
    assert "significantly better than the exact form: Efron with MLP (+2." in text
    assert "worse than the exact form: File order with Linear (-5.0" in text or "(-4.9" in text
    assert "of 2 comparisons, 1 significantly better and 0 significantly worse" in text
    assert "In 1 of 8 comparisons, another form is significantly better than the exact one." in text
    assert "than Breslow's form, the default, in 0 of 2 comparisons." in text
    equal = pages.page_of(study())
    assert "in any of the 8 comparisons" in equal
    assert "better than the exact form: none; significantly worse than the exact form: none" in equal


def test_a_page_that_contradicts_the_advice_is_not_made(pages, monkeypatch):
    monkeypatch.setattr(pages, "read_summary", lambda file: study(MLP_Efron=0.02))
    with pytest.raises(ValueError, match=r"docs/when\.yaml must not say"):
        pages.page()


def test_breslow_and_random_order(pages):
    sentence = pages.breslow_sentence(pages.breslow_with_random(study(Linear_Random=-0.03, MLP_Random=0.04)))
    assert "the higher mean in 1 of 2 comparisons" in sentence
    assert "significantly better in 1 and significantly worse in 1 of them" in sentence


def test_times_are_relative_to_the_default(pages):
    text = pages.page_of(study())
    assert "Exact 3.0 to 3.0; Efron 1.0 to 1.0; Random order 1.5 to 1.5; File order 1.0 to 1.0" in text
    assert "runs are missing" not in text
    assert "**3 runs are missing: the study is not complete.**" in pages.page_of(study(missing=3))


def test_the_lowest_grade_makes_most_of_the_difference_between_gradients(pages):
    lines = pages.gradients()["gradients"].splitlines()[2:]
    found = {
        line.split("|")[1].strip(): [entry.strip(" )").split(" (") for entry in line.split("|")[2:5]] for line in lines
    }
    assert found["Efron"][0] == ["1.00", "1.00"]
    for entries in found.values():
        for every, upper in entries[1:]:
            assert 1 - float(upper) < 0.5 * (1 - float(every))


def test_forms_without_the_lowest_grade(pages):
    row = {"data": "MQ2008", "form": "Efron", "mean": 0.5, "interval": [-0.01, 0.03], "detectable": 0.02}
    rows = [row | {"against": "Breslow", "difference": 0.01, "adjusted": p} for p in (0.04, 0.06)]
    rows += [row | {"against": "Exact", "difference": -0.01, "adjusted": 0.0001}]
    found = pages.lowest_grade(rows)
    sentence = " ".join(found["lowest_sentence"].split())
    assert "are significantly better in 1 and significantly worse in 0 of 2 comparisons with Breslow's form" in sentence
    assert "significantly better in 0 and significantly worse in 1 of 1 comparisons with the exact form" in sentence
    assert "| Exact | -1.00 | -1.00 to +3.00 | <0.001 | 2.00 |" in found["lowest_table"]
