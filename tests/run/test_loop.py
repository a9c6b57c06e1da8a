"""One loop trains networks, texts and trees: what it promises holds for all three."""

import ast
import dataclasses
import math
import threading
import time

import numpy as np
import pytest
import torch
from paths import SOURCE
from small_trees import QID, SAMPLED, X, Y, plan
from tiny_collection import WORDS, tiny_collection
from tiny_encoder import tiny_encoder

import rankgrad as rg
from rankgrad import losses
from rankgrad.data import from_arrays
from rankgrad.lock import locked
from rankgrad.models.text import BI_ENCODER
from rankgrad.run.checkpoint import LAST
from rankgrad.text import TextSettings
from rankgrad.training import Settings, SettingsError, train
from rankgrad.trees.boosting import boost

LISTS = from_arrays(X, Y, qid=QID)[0]


def same(data):
    return data


@pytest.fixture(scope="module")
def fronts(tmp_path_factory):
    """For each kind of training, a function that trains for three units with the given settings and options."""
    encoder = str(tiny_encoder(tmp_path_factory.mktemp("encoder"), words=f"{WORDS} what is a study", positions=64))
    collection = rg.text.load(tiny_collection(tmp_path_factory.mktemp("collection")))
    found = rg.text.BM25Index.build(collection.documents).search(collection.queries, k=12)
    texts = rg.text.candidate_lists(collection, found, add_relevant=True)
    quick = {"batch_size": 4, "list_size": 6, "lr": 1e-3, "max_length": 32, "encoder": encoder}

    def network(out=None, resume=False, callbacks=(), data=same, **settings):
        made = Settings(**{"epochs": 3, "device": "cpu", **settings})
        return train(made, data(LISTS), LISTS, out=out, resume=resume, callbacks=callbacks)

    def text(out=None, resume=False, callbacks=(), data=same, **settings):
        made = {**quick, "epochs": 3, "device": "cpu", **settings}
        return BI_ENCODER.fit(made, data(texts), texts, out=out, resume=resume, callbacks=callbacks)

    def trees(out=None, resume=False, callbacks=(), data=same, **settings):
        settings = {"trees": settings.pop("epochs", 3), **settings}
        return boost(plan("lightgbm", **settings), data(LISTS), LISTS, out=out, resume=resume, callbacks=callbacks)

    return {"network": network, "text": text, "trees": trees}


every_front = pytest.mark.parametrize("front", ["network", "text", "trees"])


def trust(data):
    return np.random.default_rng(0).uniform(0.5, 2, len(data.labels)).astype(np.float32)


def with_column(data):
    """Data with the weights as a named column, which only an objective reads."""
    found = dataclasses.replace(data)
    object.__setattr__(found, "columns", {"trust": trust(data)})
    return found


def trusted(scores, batch):
    return losses.softmax(scores, batch.labels, offsets=batch.offsets, weights=batch.columns["trust"], reduction="none")


def mean_trusted(scores, batch):
    return trusted(scores, batch).mean()


@pytest.mark.parametrize(
    ("front", "options"),
    [
        ("network", {"data_on": "device"}),
        ("network", {"data_on": "stream", "batch_size": 4, "list_size": 4}),
        ("text", {}),
        ("trees", {"hessian": "gradient"}),
    ],
)
def test_an_objective_sees_the_columns_of_the_batch(fronts, front, options):
    def scores(model):
        return model.score(LISTS.features, LISTS.offsets) if front != "text" else model.history[-1]["loss"]

    weighted = fronts[front](
        loss="softmax", data=lambda data: dataclasses.replace(data, weights=trust(data)), **options
    )
    found, mean = (fronts[front](loss=own, data=with_column, **options) for own in (trusted, mean_trusted))
    assert found.settings["loss"].endswith(".trusted")
    np.testing.assert_array_equal(scores(found), scores(weighted))
    plain = fronts[front](loss="softmax", **options)
    assert not np.array_equal(scores(found), scores(plain))
    if front == "network":
        assert mean.history[-1]["loss"] == pytest.approx(found.history[-1]["loss"], rel=1e-3)


def test_an_objective_that_cannot_be_trained_is_told_in_one_sentence(fronts):
    with pytest.raises(ValueError, match=r"loss must be called by the training of a ranker if it takes a batch; got"):
        losses.as_loss(trusted)(torch.zeros(2), torch.ones(2))
    with pytest.raises(
        ValueError, match=r"loss must be a function of scores and labels in a weighted sum; got .*trusted"
    ):
        losses.weighted_sum((1, trusted))
    with pytest.raises(ValueError, match=r"loss must be a function of .*, or a function of \(scores, batch\); got"):
        losses.as_loss(lambda scores, batch, more: scores.sum())
    with pytest.raises(ValueError, match=r"loss must return one value per list: shape \(40,\), or \(\) for the mean"):
        fronts["trees"](loss=lambda scores, batch: scores)


def skips_all(scores, labels):
    return math.nan


@every_front
def test_a_metric_without_a_value_keeps_the_last_unit(fronts, front):
    model = fronts[front](metric=skips_all)
    assert [math.isnan(row[model.settings["metric"]]) for row in model.history] == [True] * 3
    assert model.kept == 3


@every_front
def test_callbacks_must_be_functions(fronts, front):
    with pytest.raises(TypeError, match="callbacks must be functions with one argument, a log row; got int"):
        fronts[front](callbacks=[3])


@every_front
def test_a_callback_sees_the_log_row_and_stops_the_run(fronts, front, tmp_path):
    rows = []
    model = fronts[front](out=tmp_path / "a", callbacks=lambda row: rows.append(row) or len(rows) == 2)
    assert rows == model.history
    assert len((tmp_path / "a" / "log.jsonl").read_text().splitlines()) == 2


@every_front
def test_a_run_that_ends_while_another_waits_for_its_folder_is_not_replaced(fronts, front, tmp_path):
    folder, inside = tmp_path / "a", threading.Event()

    def other():
        with locked(folder):
            inside.set()
            time.sleep(0.3)
            (folder / LAST).write_bytes(b"the other run")

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    with pytest.raises(ValueError, match="must be a new folder, unless the run is resumed"):
        fronts[front](out=folder)
    thread.join()
    assert (folder / LAST).read_bytes() == b"the other run"


def test_a_text_run_warns_about_divergence(fronts):
    with pytest.warns(UserWarning, match="training diverges: the loss has grown to"):
        fronts["text"](loss="mse", optimiser="sgd", lr=1e-6, head_lr=1.0, clip=None, model="cross_encoder")


@every_front
def test_a_killed_run_ends_in_the_same_scores(fronts, front, tmp_path):
    """The run is killed inside an epoch or a segment, and has everything that a checkpoint must contain."""
    extra = {
        "network": {"model": "mlp:widths=8,dropout=0.2", "ema": 0.9, "save_steps": 2, "batch_size": 8},
        "text": {"ema": 0.5, "save_steps": 1, "schedule": "plateau:patience=1", "warmup": 1.0},
        "trees": {**SAMPLED["lightgbm"], "epochs": 60},
    }[front]
    whole = fronts[front](out=tmp_path / "whole", **extra)
    module = {"network": "training.loop.NeuralTraining", "text": "text.training.TextTraining"}.get(front)
    calls = []

    def killed(*given):
        calls.append(given)
        if len(calls) == (55 if front == "trees" else 4):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        if module is None:
            options = {"callbacks": killed}
        else:
            options, save = {}, f"rankgrad.{module.rpartition('.')[0]}.EpochTraining.save"
            real = rg.training.epochs.EpochTraining.save
            patch.setattr(save, lambda self: (real(self), killed(self)))
        with pytest.raises(KeyboardInterrupt):
            fronts[front](out=tmp_path / "a", **extra, **options)
    again = fronts[front](out=tmp_path / "a", resume=True, **extra)
    seconds = ("seconds", "judge_seconds")
    rows = [[{k: v for k, v in row.items() if k not in seconds} for row in model.history] for model in (whole, again)]
    assert rows[0] == rows[1]
    assert (tmp_path / "a" / "log.jsonl").read_text().count("\n") == len(rows[0])


def test_the_moving_average_of_a_text_run_is_its_model(fronts):
    begun, plain, averaged = (
        fronts["text"](epochs=1, metric=skips_all, **settings).network.state_dict()
        for settings in ({"lr": 1e-30}, {}, {"ema": 0.999})
    )
    distance = [sum(float((end[name] - begun[name]).abs().sum()) for name in begun) for end in (plain, averaged)]
    assert 0 < distance[1] < 0.1 * distance[0]


@pytest.mark.parametrize(("setting", "value"), [("ema", 1.0), ("save_steps", 0), ("trackers", ("paper",))])
def test_settings_of_the_loop_are_checked_for_texts_as_for_networks(setting, value):
    errors = []
    for settings in (Settings, TextSettings):
        with pytest.raises(SettingsError) as error:
            settings(**{setting: value}).check()
        errors += [line for line in str(error.value).splitlines() if line.startswith(setting)]
    assert len(errors) == 2
    assert errors[0] == errors[1]


def test_a_setting_at_its_default_does_not_hide_another_value_of_the_stopped_run(tmp_path, fronts):
    fronts["network"](out=tmp_path / "a", missing="mean")
    with pytest.raises(ValueError, match="missing must be 'mean', to resume"):
        fronts["network"](out=tmp_path / "a", resume=True)


def test_there_is_one_training_loop():
    """The lock, the log and the bar of a training are used in the loop only, and each trainer is a `Trainable`."""
    users: dict[str, set[str]] = {}
    for folder in ("run", "training", "text", "trees", "models"):
        for path in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    users.setdefault(node.func.id, set()).add(str(path.relative_to(SOURCE)))
    assert users["TrainingLoop"] == users["JsonLines"] == users["MetricTracker"] == {"run/loop.py"}
    assert users["ProgressBar"] == users["checked_callbacks"] == {"run/loop.py"}


def test_kinds_are_the_only_callers_of_the_trainers():
    trainers = {
        "rankgrad.training.loop": "train",
        "rankgrad.trees.boosting": "boost",
        "rankgrad.text.training": "TextTraining",
    }
    users = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in {*trainers, "rankgrad.training"}:
                names = {alias.name for alias in node.names} & {*trainers.values()}
                users |= {str(path.relative_to(SOURCE))} if names else set()
    assert users == {"training/__init__.py", "models/neural.py", "models/trees.py", "models/text.py"}
