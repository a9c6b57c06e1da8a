"""The study on learned losses and the pages of LearnDCG: the known optimum is right, sentences follow from numbers."""

import importlib
import sys

import numpy as np
import pytest
import torch
from paths import ROOT

from rankgrad.metrics import nDCG


def module(name, folder):
    sys.path.insert(0, str(ROOT / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / folder))


@pytest.fixture(scope="module")
def study():
    """The script of the study, with few test lists."""
    found = module("learned_loss", "benchmarks")
    found.TEST_LISTS, found.DRAWS = 30, 50
    return found


@pytest.fixture(scope="module")
def page():
    return module("pages.learned_loss", "docs")


@pytest.fixture(scope="module")
def scalars():
    return module("pages.learndcg", "docs")


@pytest.fixture(scope="module")
def findings():
    return module("pages.learndcg_findings", "docs")


def test_a_judge_is_an_ndcg(study):
    lists = study.generated("unequal", 12, 0, 0)
    best, scores = lists.labels.sort(-1, descending=True).values, torch.randn(12, study.DOCUMENTS)
    for judge in study.JUDGES:
        expected = nDCG(gain=judge.gain, discount=judge.discount).measure(scores, lists.labels, reduction="none")
        found = study.judged(judge, scores, study.shares(judge, lists.labels, best))
        torch.testing.assert_close(found, expected.to(found.dtype))


@pytest.mark.parametrize("kind", ["equal", "unequal"])
def test_no_order_is_better_than_the_best_order(study, kind):
    x, share = study.test_lists(kind)
    utility = torch.tensor(study.utility(x.double().numpy()))
    for judge in study.JUDGES:
        best, ours = (study.judged(judge, scores, share[judge.name]) for scores in (share[judge.name], utility))
        assert (best >= ours - 1e-12).all()
        assert float((best - ours).mean()) < 0.02 or kind == "unequal"  # the order by utility, but for the draws
    gains = {judge.name: study.order_costs(kind)[judge.name] for judge in study.JUDGES}
    assert gains["standard"] == 0
    assert (gains["any grade above 0"] > 0.03) == (kind == "unequal")


def test_a_lower_regret_is_a_negative_difference(study):
    values = np.random.default_rng(0).normal(0.5, 0.1, (4, 50))
    better = study.compared(values + 0.02 + np.random.default_rng(1).normal(0, 0.001, (4, 50)), values)
    assert better["difference"] == pytest.approx(-0.02, abs=1e-3)
    assert better["interval"][0] < -0.02 < better["interval"][1] < 0
    assert better["p"] < 0.001
    assert study.compared(values, values) == {}


def made(page, gaps):
    """Results in which a loss has the regret 0.1 plus the gap that is given for its name and the judge."""
    tables, pairs = [], [{"judge": "gain y", "p": 0.001, "adjusted": 0.001, "difference": -0.02}]
    for kind in ("equal", "unequal"):
        for ranker in ("linear", "mlp"):
            for lists in (50, 1000):
                rows = []
                for loss in page.NAMES:
                    for judge in (*page.GAINS, *page.DISCOUNTS):
                        gap = gaps(kind, loss, judge)
                        row = {"loss": loss, "judge": judge, "regret": [0.1 + gap, 0.1 + gap], "learned": [1.5, 2, 1]}
                        if loss != "fixed":
                            row |= {"difference": gap, "interval": [gap, gap], "detectable": 0.01, "p": 0.01}
                            row["adjusted"] = 0.01 if abs(gap) > 0.005 else 1.0
                        rows.append(row)
                tables.append({"kind": kind, "ranker": ranker, "lists": lists, "rows": rows, "judge - chosen": pairs})
    return {"tables": tables}


def test_findings_follow_from_the_numbers(page):
    def hoped(kind, loss, judge):
        side = 1 if judge in page.STEEPER else -1 if judge in page.FLATTER else 0
        known = {"exact": -0.06 * abs(side), "joint": 0.02 * side, "joint, curved": 0.02 * side}
        known[page.JUDGED] = -0.03 * abs(side)
        return known.get(loss, 0.0) * (kind == "unequal")

    found = made(page, hoped)
    texts = page.findings(found)
    assert "better than `fixed` in 0 and worse in 0 of 112 comparisons" in texts[0]
    assert "`exact` is significantly better than `fixed` in 16, and worse in 0, of 16" in texts[1]
    assert "better in 16 and worse in 0 of 16 comparisons with a flatter gain" in texts[1]
    assert "better in 0 and worse in 16 of 16 with a steeper gain" in texts[1]
    assert "50% with 50 lists, 50% with 1,000 lists" in texts[2]
    assert [text.split(". ")[1] for text in texts[:5]] == [
        *["As expected"] * 2, "Not as expected", "As expected", "Not as expected",
    ]  # fmt: skip
    assert page.share(page.tables_of(found, "unequal"), "joint", page.STEEPER) == pytest.approx(-1 / 3)
    # Nothing differs significantly: what was expected of unequal noise is not found.
    same = page.findings(made(page, lambda kind, loss, judge: -0.001 * (loss == "exact")))
    with pytest.raises(ValueError, match="must be written again"):
        page.answer(made(page, lambda kind, loss, judge: -0.001 * (loss == "exact")))
    assert "Unequal noise, another gain. Not as expected. `exact` is significantly better than `fixed` in 0" in same[1]


def test_the_sentence_about_figure_2_follows_from_the_walks(scalars):
    short = scalars._verdict(0.001, [0.4, 0.05], 3)
    assert "by at most 0.05 in 3 walks; in Figure 2 it moves by up to 0.20" in short
    assert "alone did not reach the range of Figure 2, but 3 walks cannot exclude it" in short
    assert "as far as in Figure 2" in scalars._verdict(0.001, [0.4, 0.25], 3)


def test_the_sentence_about_frozen_scores_follows_from_the_runs(scalars):
    row = {"data": "A", "scalar": "gain_base", "values": [2.0, 1.01], "surrogate": [0.763, 0.775], "runs": 3}
    facts = {"chip": "c", "torch": "t", "commit": "x", "seeds": 3}
    sure = scalars._frozen({**facts, "rows": [{**row, "higher at the end": 3}]})
    assert "as b_g falls from 2 to 1.01: 0.763 to 0.775 on A" in sure["frozen_verdict"]
    assert sure["frozen_verdict"].startswith("In all runs")
    assert scalars._frozen({**facts, "rows": [{**row, "higher at the end": 2}]})["frozen_verdict"].startswith("In most")


def test_a_row_is_named_for_the_losses_that_were_trained(findings):
    rows = [
        {"loss": "RMSE", "model": "A", "variants": {"rmse:levels=3": 1, "mse": 4}},
        {"loss": "RMSE", "model": "B", "variants": {"rmse:levels=3": 0, "mse": 5}},
        {"loss": "ListNet", "model": "A", "variants": {"listnet": 5, "listnet:targets=softmax": 0}},
    ]
    study = {"tables": [{"rows": rows}]}
    assert findings._named(study, "RMSE") == "MSE or RMSE"
    assert findings._variants(study, "RMSE") == {"mse": 9, "rmse:levels=3": 1}
    assert findings._named(study, "ListNet") == "ListNet"
