"""Pages of automatic searches: their numbers are those of the search and of the final model."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from browser import Browser, executable
from programs import stdout_of as rankgrad

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

from hostile_study import Hostile, faults
from test_report_browser import FAULTS

from rankgrad.cli.report import _studies
from rankgrad.data import load
from rankgrad.data.writers import write_letor
from rankgrad.experiments.report import auto_study, shuffled_importance, writer
from rankgrad.metrics import evaluate
from rankgrad.models.auto.ensemble import EVEN, GREEDY, SINGLE
from rankgrad.models.auto.saved_search import SavedSearch
from rankgrad.models.registry import load as load_model
from rankgrad.parallel import process_pool

DATA = "synthetic:lists=40,features=12,noise=1.5"  # noise, so that no candidate is clearly worse


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """Folder of a search with test lists, and of two searches of a single file; no test may change them."""
    folder = tmp_path_factory.mktemp("auto")
    write_letor(load("synthetic:lists=20,features=10").train, folder / "lists.txt")
    options = ("--folds", "2", "--jobs", "1", "--trials")
    with pytest.MonkeyPatch.context() as patch:
        run = process_pool.run_in_this_process
        patch.setattr(process_pool.Pool, "run", lambda _, tasks, until=None: run(tasks, until))
        rankgrad("auto", "--data", DATA, *options, 3, "--out", folder / "best")
        rankgrad("auto", "--data", folder / "lists.txt", *options, 3, "--distil", "mlp", "--out", folder / "file")
        rankgrad("auto", "--data", folder / "lists.txt", *options, 1, "--metric", "ARP", "--out", folder / "arp")
    return folder


@pytest.fixture(scope="module")
def study(search):
    (study,) = _studies(search / "best", [], None, True)
    return study


@pytest.fixture(scope="module")
def file_study(search):
    (study,) = _studies(search / "file", [], None, True)
    return study


def result_of(folder):
    return json.loads((folder / "search" / "result.json").read_text())


def table_of(study, title):
    return next(table for table in study.tables if title in table.title)


def test_candidates_are_those_of_the_result(search, study):
    result = result_of(search / "best")
    table = table_of(study, "candidates")
    assert len(table.rows) == 3
    for row, known in zip(table.rows, result["leaderboard"], strict=True):
        fields = dict(zip(table.heads, row, strict=True))
        assert fields["nDCG@10"].value == known["value"]
        assert fields["95% interval"].text == "{:.4f} to {:.4f}".format(*known["interval"])
        assert [fields[name].text for name in ("candidate", "model", "loss")] == [
            known[name] for name in ("candidate", "model", "loss")
        ]
    rows = {row["row"].split()[0]: row for row in study.rows["overview"]}
    complete = [known for known in result["leaderboard"] if known["folds"] == 2]
    assert len(rows) == len(complete) >= 1
    for known in complete:
        row = rows[known["candidate"]]
        assert (row["value"], [row["low"], row["high"]]) == (known["value"], known["interval"])
    assert "slightly too high" in study.measured
    assert [row["value"] for row in study.rows["progress"]][-1] == result["learning"][-1][1]


def test_members_and_forms_are_those_of_the_result(search, study):
    result = result_of(search / "best")
    members = {row[0].text: row for row in table_of(study, "Members").rows}
    assert {name: row[1].value for name, row in members.items()} == {
        member["candidate"]: member["weight"] for member in result["members"]
    }
    assert f"{1e3 * result['latency']:.3g} ms per 100 documents" in table_of(study, "Members").notes[0]
    forms = table_of(study, "Forms").rows
    assert [row[1].value for row in forms] == list(result["nested"].values())
    assert [row[2].text for row in forms].index("chosen") == list(result["nested"]).index(result["form"])
    assert len(members) == 2
    assert study.title.endswith("even blend of 2 candidates (4 models)")
    text = " ".join(study.summary)
    assert all(f"{value:.4f}" in text for value in result["nested"].values())
    assert "unless another form is clearly better" in text


@pytest.mark.parametrize(
    ("form", "models", "nested", "text", "reason"),
    [
        (SINGLE, (2,), {SINGLE: 0.5}, "mean of the fold models of c1 mlp, mse (2 models)", "only one candidate"),
        (SINGLE, (2,), {SINGLE: 0.5, EVEN: 0.4}, "mean of the fold models of c1 mlp, mse (2 models)",
         "The best candidate was clearly better than the even blend"),
        (EVEN, (2,), {SINGLE: 0.5, EVEN: 0.5}, "mean of the fold models of c1 mlp, mse (2 models)", "one member"),
        (GREEDY, (2, 2), {EVEN: 0.4, GREEDY: 0.5}, "greedy selection of 2 candidates (4 models)",
         "The greedy selection was clearly better than the even blend"),
        ("single model", (1,), {}, "single model (mlp, mse)", "given to the search as an option"),
        ("ensemble with a latency limit", (1, 1), {}, "ensemble with a latency limit, 2 candidates (2 models)",
         "given to the search as an option"),
    ],
)  # fmt: skip
def test_each_form_has_its_words_and_its_reason(form, models, nested, text, reason):
    member = {"candidate": "c1", "model": "mlp", "loss": "mse"}
    result = {"form": form, "nested": nested, "members": [member | {"models": count} for count in models]}
    assert auto_study._form(result) == text
    assert reason in list(auto_study._reason(result, "nDCG@10"))[-1]


def test_the_final_model_is_compared_on_the_test_lists(search, study):
    test = load(DATA).test
    found = load_model(search / "best").evaluate(test, ["nDCG@10", "AP"])
    table = table_of(study, "test lists")
    names = ["final model", "best candidate alone", "random order", "best single feature"]
    assert [row[0].text for row in table.rows] == names
    ours = dict(zip(table.heads, table.rows[0], strict=True))
    assert (ours["nDCG@10"].value, ours["AP"].value) == (found["nDCG@10"], found["AP"])
    low, high = found.intervals["nDCG@10"]
    assert f"On 13 test lists, which the search did not use, it has nDCG@10 {found['nDCG@10']:.4f}" in study.summary[1]
    assert {row["row"]: (row["low"], row["high"]) for row in study.rows["tested"]}["final model"] == (low, high)
    # The best candidate alone is the mean of the standardised scores of its fold models.
    best = result_of(search / "best")["leaderboard"][0]["candidate"]
    scores = np.zeros(len(test.labels))
    for fold in range(2):
        own = load_model(search / "best" / "search" / f"{best}-{fold}" / "model").score_lists(test).astype(float)
        for start, end in zip(test.offsets, test.offsets[1:], strict=False):
            part = own[start:end]
            scores[start:end] += (part - part.mean()) / part.std()
    alone = evaluate(scores, test.labels, ["nDCG@10"], offsets=test.offsets)["nDCG@10"]
    assert table.rows[1][1].value == pytest.approx(alone, abs=1e-6)
    explorer = study.explorers[DATA]
    assert [explorer["systems"][at]["loss"] for at in explorer["pair"]] == ["best candidate alone", "final model"]


def test_important_features_have_the_largest_drop(search, study):
    test, model = load(DATA).test, load_model(search / "best")
    drops = np.mean([model.feature_importance(test, repeats=1, seed=seed).values for seed in range(3)], axis=0)
    rows = study.rows["importance"]
    assert rows[0]["row"] == f"feature {drops.argmax() + 1}"
    assert rows[0]["value"] == pytest.approx(drops.max())
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


def test_expensive_importance_is_left_out_with_a_sentence(search, monkeypatch):
    monkeypatch.setattr(shuffled_importance, "IMPORTANCE_SECONDS", 0.0)
    (study,) = _studies(search / "best", [], None, False)
    assert study.rows["importance"] == []
    assert any("importance of features is left out, because it takes too long" in fact for fact in study.facts)
    assert study.explorers[DATA]["lists"] is None  # --no-lists


def test_without_test_lists_the_held_out_scores_are_shown(search, file_study):
    saved = SavedSearch.read(search / "file" / "search")
    (member,) = saved.result["members"]
    assert (member["candidate"], member["model"]) == ("student", "mlp")
    assert any("too high" in note for note in file_study.tables[0].notes)  # no honest value without test lists
    rows = {row[0].text: row[1].value for row in file_study.tables[0].rows}
    assert rows["best candidate alone"] == pytest.approx(saved.result["leaderboard"][0]["value"], abs=1e-6)
    assert "held-out lists" in file_study.summary[1]
    assert any("needs test lists" in fact for fact in file_study.facts)


def test_values_of_a_metric_of_which_lower_is_better_are_positive(search):
    result = result_of(search / "arp")
    value = result["leaderboard"][0]["value"]
    assert value > 1  # a mean rank
    assert result["nested"] == {SINGLE: pytest.approx(value)}
    assert result["learning"][-1][1] == pytest.approx(value)
    (study,) = _studies(search / "arp", [], None, False)
    assert study.tables[0].rows[0][1].value == pytest.approx(value)
    assert [row["value"] for row in study.rows["overview"]] == [value]


def test_changed_data_is_a_warning(search, tmp_path):
    own = shutil.copytree(search / "file", tmp_path / "file")
    text = (search / "lists.txt").read_text()
    (tmp_path / "lists.txt").write_text(text.replace("1:", "1:1", 1))
    record = json.loads((own / "data.json").read_text())
    kept = {**record, "data": str(tmp_path / "lists.txt")}
    (own / "data.json").write_text(json.dumps({name: value for name, value in kept.items() if name != "sha256"}))
    (study,) = _studies(own, [], None, True)
    assert "The data has changed since the search" in study.warnings[0]
    assert study.explorers == {}


def test_a_search_without_its_data_shows_what_was_recorded(search, tmp_path):
    own = shutil.copytree(search / "best", tmp_path / "best")
    record = json.loads((own / "data.json").read_text().replace(DATA, str(tmp_path / "gone")))
    (own / "data.json").write_text(json.dumps({name: value for name, value in record.items() if name != "sha256"}))
    result = result_of(own)
    result["leaderboard"][-1] |= {"note": "failed: the loss is not finite", "value": None, "interval": None, "folds": 0}
    result["notes"] = ["xgboost is not installed"]
    del result["sha256"]
    (own / "search" / "result.json").write_text(json.dumps(result))
    out = rankgrad("report", own, "--out", tmp_path / "page.html", "--figures", tmp_path / "figures")
    assert "The data was not read" in " ".join(out.split())
    page = (tmp_path / "page.html").read_text()
    recorded = json.loads((own / "metrics.json").read_text())["test"]
    assert f">{recorded['nDCG@10']:.4f}</td>" in page
    assert f">{result['leaderboard'][0]['value']:.4f}</td>" in page
    assert "1 candidate failed" in page
    assert "failed: the loss is not finite" in page
    assert "Xgboost is not installed." in page
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])["s0"]
    assert set(data["charts"]) == {"overview", "progress", "gains"}
    assert len(list((tmp_path / "figures").glob("*-overview-*.svg"))) == 1


def test_a_search_that_has_not_ended_is_one_sentence(search, tmp_path):
    own = shutil.copytree(search / "best", tmp_path / "best")
    (own / "search" / "result.json").unlink()
    with pytest.raises(ValueError, match=r"search must contain result.json, the file of a finished search"):
        rankgrad("report", own, "--out", tmp_path / "page.html")


def test_hostile_texts_of_a_search_stay_texts(study):
    for seed in range(3):
        assert faults(writer.page([Hostile(np.random.default_rng(seed)).study(study)])) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_has_no_faults_in_a_browser(study, file_study, tmp_path, width):
    if executable() is None:
        if os.environ.get("RANKGRAD_BROWSER") == "required":
            pytest.fail("no Chromium, which RANKGRAD_BROWSER=required asks for")
        pytest.skip("no Chromium")
    page = writer.write_page([study, file_study], tmp_path / "page.html")
    with Browser() as browser:
        browser.open(page, width=width)
        assert browser.errors == []
        assert browser.requests == [page.resolve().as_uri()]
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate(FAULTS) == []
        charts = browser.evaluate("[...document.querySelectorAll('#s0 .chart')].map((e) => e.dataset.chart)")
        assert charts == ["tested", "overview", "progress", "importance", "gains"]
        numbers = "[...document.querySelectorAll('#s0 [data-chart=tested] .mark-text.role-mark text')]"
        shown = browser.evaluate(f"{numbers}.map((e) => e.textContent)")
        assert sorted(shown) == sorted(row[1].text for row in study.tables[0].rows)
