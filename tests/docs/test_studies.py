"""Finished studies: a page follows from the results in its folder, and every script works with the package of today."""

import importlib.util
import re
from functools import partial

import numpy as np
import pytest
import torch
from paths import ROOT

import rankgrad as rg
from rankgrad import losses
from rankgrad.metrics import nDCG
from rankgrad.trees import objective

STUDIES = ROOT / "studies"
SPEC = importlib.util.spec_from_file_location("studies_build", STUDIES / "build.py")
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)

SLOW = ("bounds",)  # goes through all short lists
SCRIPTS = sorted(path for path in STUDIES.glob("*/*.py") if path.stem != "page")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in SLOW else ()) for n in build.NAMES])
def test_a_page_follows_from_the_results_of_its_study(name):
    again = f"run python studies/build.py {name}"
    assert (STUDIES / name / "README.md").read_text() == build.text(build.script(name)), again


def test_a_stale_page_is_found(tmp_path, monkeypatch, capsys):
    (tmp_path / "bounds").mkdir()
    (tmp_path / "bounds" / "page.py").write_text("def page():\n    return 'new'\n")
    (tmp_path / "bounds" / "README.md").write_text(f"{build.NOTE}\n\nold")
    monkeypatch.setattr(build, "STUDIES", tmp_path)
    monkeypatch.setattr("sys.argv", ["build.py", "bounds", "--check"])
    with pytest.raises(SystemExit, match=r"studies/bounds/README\.md is stale; run python studies/build.py bounds"):
        build.main()
    monkeypatch.setattr("sys.argv", ["build.py", "bounds"])
    build.main()
    assert (tmp_path / "bounds" / "README.md").read_text() == f"{build.NOTE}\n\nnew"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_script_finds_all_that_it_imports(path):
    build.script(path.parent.name, path.stem)


def test_a_study_is_complete():
    for folder in STUDIES.iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert {"README.md", "template.md", "page.py"} <= {path.name for path in folder.iterdir()}, folder.name
            drawn = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (folder / "README.md").read_text())
            assert {*drawn} == {path.name for path in folder.glob("*.svg")}, folder.name


@pytest.fixture(scope="module")
def lists():
    """Lists of which the second has no relevant document."""
    rng = np.random.default_rng(0)
    offsets = np.array([0, 4, 9, 12])
    labels = rng.integers(0, 3, 12).astype(np.float32)
    labels[4:9], labels[0], labels[9] = 0, 2, 1
    return rg.data.Dataset(rng.normal(size=(12, 3)).astype(np.float32), labels, offsets, np.arange(3))


SCORES = np.random.default_rng(1).normal(size=12)
PUBLISHED = {
    "labels out labels": ("softmax", None),
    "labels out one": ("listnet", None),
    "smoothed out one": (partial(losses.xe_ndcg, gamma=0.5), None),
    "smoothed uniform one": ("listnet", 0.5),
    "smoothed uniform targets": ("softmax", 0.5),
}


@pytest.mark.parametrize("row", PUBLISHED)
def test_rows_of_the_study_of_empty_lists_are_the_losses_of_the_library(lists, row):
    targets = build.script("empty-lists", "measure").with_targets(lists, *row.split())
    loss, smooth = PUBLISHED[row]
    ours, known = objective("softmax"), objective(loss, smooth=smooth)
    found = ours.derivatives(SCORES, targets.labels, lists.offsets)
    expected = known.derivatives(SCORES, lists.labels, lists.offsets)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)


def test_equal_targets_pull_scores_together_and_do_not_lower_them(lists):
    """The formula of the page: the gradient of an empty list is p - 1/n, whose sum is 0."""
    gradient, _ = objective("listnet", smooth=0.5).derivatives(SCORES, lists.labels, lists.offsets)
    p = torch.softmax(torch.tensor(SCORES[4:9]), 0).numpy()
    np.testing.assert_allclose(gradient[4:9], p - 1 / 5, atol=1e-6)
    lower, _ = objective("mse").derivatives(np.full(12, 0.5), lists.labels, lists.offsets)
    assert (lower[4:9] > 0).all()  # a pointwise loss lowers all scores of the list


@pytest.fixture(scope="module")
def learned():
    """The script of the study on learned losses, with few test lists."""
    found = build.script("learned-loss", "measure")
    found.TEST_LISTS, found.DRAWS = 30, 50
    return found


def test_a_judge_is_an_ndcg(learned):
    made = learned.generated("unequal", 12, 0, 0)
    best, scores = made.labels.sort(-1, descending=True).values, torch.randn(12, learned.DOCUMENTS)
    for judge in learned.JUDGES:
        expected = nDCG(gain=judge.gain, discount=judge.discount).measure(scores, made.labels, reduction="none")
        found = learned.judged(judge, scores, learned.shares(judge, made.labels, best))
        torch.testing.assert_close(found, expected.to(found.dtype))


@pytest.mark.parametrize("kind", ["equal", "unequal"])
def test_no_order_is_better_than_the_best_order(learned, kind):
    x, share = learned.test_lists(kind)
    utility = torch.tensor(learned.utility(x.double().numpy()))
    for judge in learned.JUDGES:
        best, ours = (learned.judged(judge, scores, share[judge.name]) for scores in (share[judge.name], utility))
        assert (best >= ours - 1e-12).all()
        assert float((best - ours).mean()) < 0.02 or kind == "unequal"  # the order by utility, but for the draws
