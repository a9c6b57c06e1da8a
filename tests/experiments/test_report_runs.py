"""Pages of a training run and of a tuning run: their numbers are those of the run."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from made_results import make
from made_runs import DATA, make_runs
from programs import stdout_of as rankgrad

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from hostile_study import Hostile, faults

from rankgrad.cli.report import _studies
from rankgrad.data import load, write_letor
from rankgrad.experiments.report import writer
from rankgrad.experiments.report.ranker_study import baselines
from rankgrad.experiments.report.training_study import ranker_name
from rankgrad.models.registry import load as load_model


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.getbasetemp() / "runs")


@pytest.fixture(scope="module")
def training(runs):
    (study,) = _studies(runs / "a", [], None, True)
    return study


@pytest.fixture(scope="module")
def tuning(runs):
    (study,) = _studies(runs / "best", [], None, True)
    return study


def test_a_training_run_is_compared_with_rankers_that_need_no_training(runs, training):
    test = load(DATA).test
    found = load_model(runs / "a").evaluate(test, ["nDCG@10", "AP"])
    table = training.tables[0]
    assert [row[0].text for row in table.rows] == ["linear, learndcg", "random order", "best single feature"]
    ours = dict(zip(table.heads, table.rows[0], strict=True))
    assert ours["nDCG@10"].value == found["nDCG@10"]
    assert ours["AP"].value == found["AP"]
    low, high = found.intervals["nDCG@10"]
    assert ours["95% interval"].text == f"{low:.4f} to {high:.4f}"
    assert (
        f"nDCG@10 {found['nDCG@10']:.4f} (95% interval {low:.4f} to {high:.4f}) on 13 test lists" in training.summary[0]
    )
    # The best of all single features, and of their negatives, on the training lists.
    train = load(DATA).train
    columns = np.concatenate([train.features, -train.features], axis=1).T
    from rankgrad.metrics import ndcg

    best = int(np.argmax([ndcg(column, train.labels, offsets=train.offsets, k=10) for column in columns]))
    column = np.concatenate([test.features, -test.features], axis=1)[:, best]
    shown = dict(zip(table.heads, table.rows[2], strict=True))
    assert shown["nDCG@10"].value == pytest.approx(ndcg(column, test.labels, offsets=test.offsets, k=10))


def test_the_curves_of_a_training_run_are_its_log(runs, training):
    log = [json.loads(line) for line in (runs / "a" / "log.jsonl").read_text().splitlines()]
    assert [row["own"] for row in training.rows["curves"]] == [row["nDCG@10"] for row in log]
    assert [row["own"] for row in training.rows["training_loss"]] == [row["loss"] for row in log]
    assert {row["parameter"] for row in training.rows["learned"]} == {"gain_base", "discount_base", "alpha"}
    assert f"of {len(log)}" in training.summary[-1]


def test_the_importance_of_features_of_a_training_run_is_that_of_its_model(runs, training):
    model, test = load_model(runs / "a"), load(DATA).test
    drops = [model.feature_importance(test, "nDCG@10", repeats=1, seed=seed).values for seed in range(3)]
    shown = {f"feature {place + 1}": value for place, value in enumerate(np.mean(drops, axis=0)) if value > 0}
    assert {row["row"]: row["value"] for row in training.rows["importance"]} == pytest.approx(shown)
    assert training.importance.startswith(
        "Drop of nDCG@10 on 13 test lists when the values of one feature are shuffled"
    )


def test_the_worst_query_of_the_run_is_first(training):
    explorer = training.explorers[DATA]
    assert explorer["order"] == "worst"
    assert [explorer["systems"][place]["loss"] for place in explorer["pair"]] == [
        "best single feature",
        "linear, learndcg",
    ]


def test_the_explorer_explains_the_first_mistake_of_each_list(runs, training):
    test, model = load(DATA).test, load_model(runs / "a")
    explained = training.explorers[DATA]["explanations"]
    assert training.explorers[DATA]["systems"][explained["system"]]["loss"] == "linear, learndcg"
    assert set(explained["queries"]) == set(test.qids.astype(str))
    for place in (0, 5):
        one, scores = test[place], model.score(test[place].features)
        found = explained["queries"][str(one.qid)]
        above, below = found["documents"]
        ordered = one.labels[np.argsort(-scores, kind="stable")]
        if (np.diff(ordered) > 0).any():
            assert one.labels[above] < one.labels[below]
        assert found["gap"] == pytest.approx(float(scores[above]) - float(scores[below]), abs=1e-5)
        assert sum(value for _, value in found["terms"]) == pytest.approx(found["gap"])
        own = model.contributions(one.features, above, below).values
        assert found["terms"][0] == [f"feature {np.abs(own).argmax() + 1}", pytest.approx(own[np.abs(own).argmax()])]


def test_a_tuning_run_shows_its_trials_and_the_best_on_test(runs, tuning):
    trials = tuning.tables[0]
    values = [row[1].value for row in trials.rows]
    last = [json.loads(path.read_text()) for path in (runs / "best" / "trials").glob("*/after-9.json")]
    assert values[0] == max(each["value"] for each in last)
    assert len(trials.rows) == 6
    rows = {row["row"]: row for row in tuning.rows["overview"]}
    for row in trials.rows:
        assert rows[row[0].text]["value"] == pytest.approx(row[1].value, abs=1e-6)
        assert rows[row[0].text]["low"] <= row[1].value <= rows[row[0].text]["high"]
    found = load_model(runs / "best").evaluate(load(DATA).test, ["nDCG@10"])
    assert tuning.tables[1].rows[0][1].value == pytest.approx(found["nDCG@10"])
    assert "The best of 6 trials" in tuning.summary[0]
    assert f"On the test lists, this trial has {found['nDCG@10']:.4f}" in tuning.summary[1]
    assert [panel.chart for panel in tuning.panels()][:3] == ["overview", "curves", "training-loss"]
    assert {setting for setting, _ in tuning.settings} <= set(trials.heads)


def test_runs_without_their_data_say_so_and_show_what_was_recorded(runs, tmp_path):
    for name in ("a", "best"):
        own = shutil.copytree(runs / name, tmp_path / name)
        for path in (own / "data.json", own / "trials" / "search.json"):
            if path.is_file():
                record = json.loads(path.read_text().replace(DATA, str(tmp_path / "gone")))
                path.write_text(json.dumps({key: value for key, value in record.items() if key != "sha256"}))
    out = rankgrad("report", tmp_path / "a", "--out", tmp_path / "a.html")
    assert "The data was not read" in " ".join(out.split())
    recorded = json.loads((runs / "a" / "metrics.json").read_text())["test"]
    assert f">{recorded['nDCG@10']:.4f}</td>" in (tmp_path / "a.html").read_text()
    rankgrad("report", tmp_path / "best", "--out", tmp_path / "best.html")
    (study,) = _studies(tmp_path / "best", [], None, True)
    assert all(row["low"] == row["value"] == row["high"] for row in study.rows["overview"])
    (tmp_path / "a" / "data.json").unlink()
    rankgrad("report", tmp_path / "a", "--out", tmp_path / "b.html")
    assert "does not record its data" in (tmp_path / "b.html").read_text()


def test_a_folder_of_runs_and_experiments_is_one_page(runs, tmp_path):
    for name in ("a", "best"):
        shutil.copytree(runs / name, tmp_path / "all" / name)
    make(tmp_path / "all" / "made", scores=False)
    folders = ("--tables", tmp_path / "tables")
    rankgrad("report", tmp_path / "all", "--out", tmp_path / "page.html", "--no-lists", *folders)
    page = (tmp_path / "page.html").read_text()
    assert page.count('<section class="study"') == 3
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    assert all(found["lists"] is None for study in data.values() for found in study["explorers"].values())
    names = [f"{name}.{ending}" for name in ("a", "best", "made") for ending in ("md", "tex")]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == names
    assert "| linear, learndcg | 0." in (tmp_path / "tables" / "a.md").read_text()


def test_a_recipe_is_only_for_experiments(runs, tmp_path):
    recipe = make(tmp_path / "made", scores=False) / "recipe.yaml"
    with pytest.raises(ValueError, match="recipe must be given only for experiments"):
        rankgrad("report", runs / "a", "--recipe", recipe)


def test_a_run_without_a_model_is_one_sentence(runs, tmp_path):
    (tmp_path / "a").mkdir()
    shutil.copy(runs / "a" / "run.json", tmp_path / "a")
    with pytest.raises(ValueError, match=r"a must be the folder of a finished training .*; got no config.json"):
        rankgrad("report", tmp_path / "a")


@pytest.mark.parametrize("which", ["training", "tuning"])
def test_hostile_texts_of_a_run_stay_texts(which, request):
    study = request.getfixturevalue(which)
    for seed in range(4):
        assert faults(writer.page([Hostile(np.random.default_rng(seed)).study(study)])) == []


def test_a_run_is_reported_on_another_file(runs, tmp_path):
    path = tmp_path / "other.txt"
    write_letor(load(DATA).test, path)
    (study,) = _studies(runs / "a", [], None, True, str(path))
    assert "tested on other.txt" in str(study)
    with pytest.raises(ValueError, match="data must be given only for runs of train and auto"):
        _studies(runs / "best", [], None, True, str(path))


def test_the_baseline_ranks_missing_values_last_and_in_silence(recwarn):
    data = load("synthetic:lists=20,features=10").train
    holes = data.features.copy()
    holes[::3] = np.nan
    (_, feature) = baselines(replace(data, features=holes), replace(data, features=holes), "nDCG@10")
    assert np.isfinite(feature.scores).all()
    assert feature.scores[::3].max() < feature.scores[1::3].min()
    assert not recwarn.list


def test_the_name_of_a_ranker_of_trees_is_its_framework():
    assert ranker_name({"framework": "xgboost", "loss": "softmax"}) == "xgboost, softmax"
    assert ranker_name({"model": "linear", "loss": "softmax"}) == "linear, softmax"
    assert ranker_name({}) == "ranker"
