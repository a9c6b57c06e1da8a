"""The training loop: what it learns, what it keeps, what it says, and how it stops."""

import json
import math
import pickle
import re
import shutil
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from paths import SOURCE, TESTS
from programs import program

from rankgrad.data import Dataset, Preprocessing, Splits, load, open_cache, write_cache
from rankgrad.data.cache import writing_cache
from rankgrad.data.read_summary import ReadSummary
from rankgrad.data.splitting import hold_out
from rankgrad.metrics import evaluate
from rankgrad.training import Model, NotFinite, Settings, SettingsError, train
from rankgrad.training.batch_loading import DeviceData, StreamedData
from rankgrad.training.batch_schedule import BatchSchedule
from rankgrad.training.optimisers import OPTIMISERS, MovingAverage, Schedule, make_optimiser

LISTS = load("synthetic:lists=60,features=10")
QUICK = {"model": "mlp:widths=16", "epochs": 3, "batch_size": 8, "device": "cpu"}
MODELS = TESTS / "models" / "saved"


def run(validation=True, data=LISTS.train, out=None, weights=None, resume=False, **settings):
    held = LISTS.validation if validation else None
    return train(Settings(**{**QUICK, **settings}), data, held, out=out, weights=weights, resume=resume)


def weights_of(model):
    return {name: value.clone() for name, value in model.ranker.state_dict().items()}


def same(left, right):
    return all(torch.equal(value, right[name]) for name, value in left.items())


def test_it_learns():
    lists = load("synthetic:lists=400,features=10")
    quick, metric = Settings(**QUICK), "nDCG@10"
    untrained = train(replace(quick, epochs=1, lr=1e-9), lists.train).evaluate(lists.test, [metric])[metric]
    trained = train(replace(quick, epochs=20, lr=0.01), lists.train, lists.validation).evaluate(lists.test, [metric])
    best = evaluate(lists.test.best, lists.test.labels, [metric], offsets=lists.test.offsets)[metric]
    assert untrained < 0.7 * best
    assert trained[metric] > 0.9 * best


def test_a_seed_decides_everything_and_the_caller_keeps_its_random_numbers():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = run(model="mlp:widths=16,dropout=0.3", list_size=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert same(weights_of(first), weights_of(run(model="mlp:widths=16,dropout=0.3", list_size=5)))
    assert not same(weights_of(first), weights_of(run(model="mlp:widths=16,dropout=0.3", list_size=5, seed=1)))


def test_checked_settings_are_trained_twice_alike():
    checked = Settings.checked({**QUICK, "loss": "learndcg", "loss_lr": 0.1})
    first, second = (train(checked, LISTS.train) for _ in range(2))
    assert first.metrics == second.metrics
    assert same(weights_of(first), weights_of(second))


@pytest.mark.parametrize("preprocess", ["none", "log1p,standardise", "standardise_per_query", "quantile"])
def test_a_stream_gives_what_the_device_gives(preprocess):
    models = [run(preprocess=preprocess, list_size=7, data_on=place) for place in ("device", "stream")]
    assert same(*map(weights_of, models))
    assert [row["nDCG@10"] for row in models[0].history] == [row["nDCG@10"] for row in models[1].history]


@pytest.mark.parametrize("options", [{"preprocess": "quantile", "list_size": 7}, {"model": "context_aware:width=8"}])
def test_a_mapped_stream_with_held_out_lists_trains_as_copies_do(tmp_path, options):
    whole = Splits(LISTS.train, None, None)
    write_cache(LISTS.train, tmp_path / "cache")
    mapped = replace(whole, train=replace(open_cache(tmp_path / "cache"), name=LISTS.train.name))
    settings = Settings(**{**QUICK, "model": "linear", **options, "data_on": "stream", "epochs": 1})
    copied, read = (hold_out(splits, 0.3, seed=1) for splits in (whole, mapped))
    expected = train(settings, copied.train, copied.validation, out=tmp_path / "run")
    found = train(settings, read.train, read.validation)
    assert not any("features" in vars(part) for part in (read.train, read.validation))  # they would be a copy
    assert same(weights_of(found), weights_of(expected))
    assert [row["nDCG@10"] for row in found.history] == [row["nDCG@10"] for row in expected.history]
    longer = replace(settings, epochs=2)
    resumed = train(longer, read.train, read.validation, out=tmp_path / "run", resume=True)  # of the copied lists
    assert same(weights_of(resumed), weights_of(train(longer, copied.train, copied.validation)))


@pytest.mark.long
def test_memory_of_a_stream_does_not_grow_with_the_cache(tmp_path):
    peaks = []
    for lists in (500, 8_000):
        documents = 100 * lists
        with writing_cache(tmp_path / f"{lists}") as writer:
            arrays = {"labels": np.arange(documents, dtype=np.float32) % 5, "qids": np.arange(lists)}
            arrays["offsets"] = np.arange(0, documents + 1, 100)
            writer.new("features", (documents, 136), np.float32)[:] = arrays["labels"][:, None]
            for name, values in arrays.items():
                writer.new(name, values.shape, values.dtype)[:] = values
            writer.finish("made", {}, [], ReadSummary(("made",), 0, 0, documents, lists, 136, 0, 0, 0, 0))
        words = ["train", "--data", tmp_path / f"{lists}", "--data-on", "stream", "--epochs", 1, "--out"]
        going, peak = program(*words, tmp_path / f"run{lists}"), 0
        while going.poll() is None:
            if found := re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{going.pid}/status").read_text()):
                peak = max(peak, 1024 * int(found[1]))
            time.sleep(0.01)
        assert going.returncode == 0, going.communicate()
        peaks.append(peak)
    size = (tmp_path / "8000" / "features.npy").stat().st_size
    assert peaks[1] - peaks[0] < size / 3  # labels, weights of batches and indices; a copy is `size`


def test_a_stream_raises_what_goes_wrong_in_its_thread():
    class Broken(Preprocessing):
        def transform(self, *arguments):
            raise OSError("the disk is gone")

    plan = BatchSchedule(LISTS.train.labels, LISTS.train.offsets, seed=0, batch=8).steps(0)
    stream = StreamedData(LISTS.train, Broken(), None, torch.device("cpu"))
    with pytest.raises(OSError, match="the disk is gone"):
        list(stream.batches(plan))


def test_a_stream_that_is_left_early_stops_reading():
    import threading

    plan = BatchSchedule(LISTS.train.labels, LISTS.train.offsets, seed=0, batch=2).steps(0)
    batches = StreamedData(LISTS.train, Preprocessing(), None, torch.device("cpu")).batches(plan)
    next(batches)
    batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "rankgrad-feed"]


@pytest.mark.parametrize("documents", [None, 40])
@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("world", [1, 3])
def test_every_list_once_an_epoch(documents, by_length, world):
    lengths = np.random.default_rng(0).integers(0, 30, 101)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.zeros(offsets[-1], dtype=np.float32)
    plans = [BatchSchedule(labels, offsets, 3, 8, documents, None, by_length, rank, world) for rank in range(world)]
    shares = [plan.steps(2) for plan in plans]
    assert len({len(share) for share in shares}) == 1  # every process makes as many steps
    seen = np.concatenate([step.lists for share in shares for step in share])
    assert sorted(seen) == sorted(np.flatnonzero(lengths))
    for steps in zip(*shares, strict=True):
        assert {step.batch for step in steps} == {sum(len(step.lists) for step in steps)}
        total = sum(len(step.rows) for step in steps)
        assert documents is None or total <= documents or steps[0].batch == 1
        assert documents is not None or steps[0].batch <= 8
        for step in steps:
            for place, number in enumerate(step.lists):
                rows = step.rows[step.offsets[place] : step.offsets[place + 1]]
                assert np.array_equal(rows, np.arange(offsets[number], offsets[number + 1]))
    again, other = plans[0].steps(2), plans[0].steps(3)
    assert all(np.array_equal(one.lists, two.lists) for one, two in zip(shares[0], again, strict=True))
    assert any(not np.array_equal(one.lists, two.lists) for one, two in zip(again, other, strict=False))


def test_lists_of_like_length_share_a_batch():
    lengths = np.random.default_rng(0).integers(1, 200, 3000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.zeros(offsets[-1], dtype=np.float32)

    def waste(by_length):
        steps = BatchSchedule(labels, offsets, 0, 64, by_length=by_length).steps(0)
        return sum(step.width * len(step.lists) for step in steps) / offsets[-1]

    assert waste(True) < 1.1 < 1.7 < waste(False)


def test_the_loss_does_not_depend_on_the_batch_size():
    small, large = (run(batch_size=size, lr=1e-9, epochs=1).history[0]["loss"] for size in (3, 60))
    assert small == pytest.approx(large, rel=1e-5)


def test_the_best_epoch_is_kept_and_a_run_without_progress_stops():
    model = run(lr=0.5, epochs=40, patience=4)
    values = [row["nDCG@10"] for row in model.history]
    assert len(values) == np.argmax(values) + 1 + 4 < 40
    assert model.evaluate(LISTS.validation, ["nDCG@10"])["nDCG@10"] == pytest.approx(max(values), abs=1e-9)
    assert model.metrics == {"epoch": int(np.argmax(values)) + 1, "validation": {"nDCG@10": max(values)}}
    lower = run(metric="ARP", epochs=6, lr=0.1)
    assert lower.metrics["validation"]["ARP"] == min(row["ARP"] for row in lower.history)


def test_without_validation_the_last_epoch_is_kept(tmp_path):
    model = run(validation=False, out=tmp_path)
    assert model.metrics == {"epoch": 3}
    assert same(weights_of(model), weights_of(Model.load(tmp_path)))


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_optimiser_goes_on_where_it_was(optimiser, tmp_path):
    for epochs in (1, 3):
        train(Settings(**{**QUICK, "epochs": epochs}, optimiser=optimiser), LISTS.train, out=tmp_path, resume=True)
    whole = run(validation=False, optimiser=optimiser)
    assert same(weights_of(whole), weights_of(Model.load(tmp_path)))


def test_a_loss_has_its_own_rate_and_no_weight_decay():
    still = run(loss="learndcg", weight_decay=0.5, optimiser="adamw", lr=1e-9, loss_lr=1e-12, epochs=2)
    assert still.metrics["loss"]["discount_base"] == 2.0  # its gradient is 0, so only decay could move it
    moved = run(loss="learndcg:discount=curved", lr=1e-9, loss_lr=0.1, epochs=2)
    assert abs(moved.metrics["loss"]["alpha"] - 1.0) > 0.05
    assert set(moved.history[0]) >= {"gain_base", "discount_base", "alpha"}
    assert same(weights_of(run(lr=1e-9, epochs=1)), weights_of(run(lr=1e-9, epochs=1, loss_lr=0.1)))


def test_weight_decay_and_clipping_act():
    plain, decayed = weights_of(run()), weights_of(run(optimiser="adamw", weight_decay=10.0))
    assert sum(value.norm() for value in decayed.values()) < 0.95 * sum(value.norm() for value in plain.values())
    start, unclipped = weights_of(run(lr=1e-12, epochs=1)), weights_of(run(optimiser="sgd", lr=0.1, epochs=1))
    clipped = weights_of(run(optimiser="sgd", lr=0.1, clip=1e-4, epochs=1))
    moves = [sum((now[name] - start[name]).norm() for name in start) for now in (clipped, unclipped)]
    assert 0 < moves[0] < 8 * 0.1 * 1e-4 * 2 < moves[1]


def test_the_average_is_what_is_kept():
    live, averaged = run(), run(ema=0.999)
    start = weights_of(run(lr=1e-12, epochs=1))
    for name, value in weights_of(averaged).items():
        assert (value - start[name]).norm() < 0.1 * (live.ranker.state_dict()[name] - start[name]).norm()
    tensor = torch.tensor([1.0])
    average = MovingAverage([tensor], decay=0.75)
    tensor.fill_(5.0)
    average.update()
    average.swap()
    assert tensor.item() == 2.0
    average.swap()
    assert tensor.item() == 5.0


def test_schedules():
    def rates(text, times, warmup=0.0, factor=1.0):
        rate = Schedule(text, epochs=10, warmup=warmup)
        return [round(rate.factor(time, factor), 6) for time in times]

    assert rates("constant", [0.1, 9]) == [1, 1]
    assert rates("constant", [0.5, 1, 2, 3], warmup=2) == [0.25, 0.5, 1, 1]
    assert rates("cosine", [0, 5, 10]) == [1, 0.5, 0]
    assert rates("cosine:end=0.2", [10]) == [0.2]
    assert rates("step:every=4,factor=0.5", [3.9, 4, 8.5]) == [1, 0.5, 0.25]
    assert rates("plateau", [3], factor=0.25) == [0.25]
    factors, factor, plateau = [], 1.0, Schedule("plateau:patience=1,factor=0.1", epochs=10, warmup=0)
    for stale in (0, 1, 2, 3, 4, 5, 0, 1, 2):
        factor = plateau.lowered(factor, stale)
        factors.append(round(factor, 6))
    assert factors == [1, 1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001]


def test_the_rate_of_every_step_is_the_schedule():
    history = run(schedule="step:every=1,factor=0.1", epochs=3).history
    assert [row["lr"] for row in history] == pytest.approx([1e-4, 1e-5, 1e-6])


def test_everything_wrong_is_said_at_once():
    with pytest.raises(SettingsError) as error:
        Settings(
            model="mpl", loss="lamdaloss@5", preprocess="standarise", optimiser="adma", schedule="cosin",
            metric="nDGC@10", epochs=0, lr=-1.0, precision="fp8", clip=0.0, ema=1.0, batch_size=2.5,
        ).check()  # fmt: skip
    lines = str(error.value).splitlines()
    assert len(lines) == 12
    for near in ("'mlp'", "'lambdaloss'", "'standardise'", "'adam'", "'cosine'", "'nDCG'"):
        assert any(near in line for line in lines), near
    assert "epochs must be at least 1; got 0" in lines
    with pytest.raises(SettingsError, match=r"model must be a spec such as .*; got tuple"):
        Settings(model=("mlp", {})).check()
    with pytest.raises(ValueError, match="'batch_size'"):
        Settings.of({"batchsize": 3})


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    train(Settings(**{**QUICK, "epochs": 1}, optimiser="sgd", data_on="device"), LISTS.train, out=tmp_path)
    features = LISTS.train.features.copy()
    features[LISTS.train.offsets[7]] = 3e38  # overflows in the first layer
    broken = Dataset(features, LISTS.train.labels, LISTS.train.offsets, LISTS.train.qids)
    with pytest.raises(NotFinite) as error:
        run(data=broken, preprocess="none", optimiser="sgd", lr=1.0, out=tmp_path / "broken")
    message = str(error.value)
    assert "epoch 1, step " in message
    assert f"for the queries {LISTS.train.qids[7]};" in message
    assert "last good checkpoint: none" in message
    with pytest.raises(NotFinite, match=r"last good checkpoint: .*last\.safetensors"):
        run(loss="mse", optimiser="sgd", lr=100.0, batch_size=60, epochs=50, out=tmp_path / "later")


def test_weights_are_honoured():
    ones = np.ones(len(LISTS.train.labels))
    plain = weights_of(run(loss="ranknet"))
    assert same(plain, weights_of(run(loss="ranknet", weights=ones)))
    assert not same(plain, weights_of(run(loss="ranknet", weights=np.arange(len(ones)))))
    with pytest.raises(ValueError, match="weights must be None for approx_ndcg, which takes no weights"):
        run(loss="approx_ndcg", weights=ones)
    with pytest.raises(ValueError, match="weights must have one value per document"):
        run(loss="ranknet", weights=ones[1:])
    with pytest.raises(ValueError, match="weights must be finite and at least 0"):
        run(loss="ranknet", weights=-ones)


def test_half_precision_learns_what_single_does():
    single, half = run(epochs=5, lr=0.01), run(epochs=5, lr=0.01, precision="bf16")
    assert half.metrics["validation"]["nDCG@10"] == pytest.approx(single.metrics["validation"]["nDCG@10"], abs=0.05)
    assert all(value.dtype == torch.float32 for value in half.ranker.state_dict().values())
    with pytest.raises(ValueError, match="precision must be 'fp32' or 'bf16' on the CPU"):
        run(precision="fp16")


def test_lists_of_one_and_no_document_and_no_lists_at_all():
    offsets = np.array([0, 0, 1, 1, 6, 6])
    data = Dataset(LISTS.train.features[:6], LISTS.train.labels[:6], offsets, np.arange(5))
    model = train(Settings(**QUICK), data, data)
    assert math.isfinite(model.history[-1]["loss"])
    assert model.score(data.features, offsets).shape == (6,)
    assert model.score(data.features[:0], np.array([0])).shape == (0,)


def test_the_log_has_a_line_an_epoch(tmp_path):
    model = run(out=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert rows == model.history
    assert [row["epoch"] for row in rows] == [1, 2, 3]


def test_trackers(tmp_path):
    pytest.importorskip("tensorboard")
    run(out=tmp_path, trackers=("tensorboard",))
    assert list(tmp_path.glob("tensorboard/events*"))


@pytest.mark.parametrize("metric", ["nDCG@10", "nDCG(gain='linear')@5"])
def test_mlflow_has_the_numbers_of_a_fresh_and_a_resumed_run(tmp_path, monkeypatch, metric):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the only store of mlflow-skinny without a server
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    settings = {"metric": metric, "trackers": ("mlflow",)}
    with mlflow.start_run() as outer:  # fit may run inside a run of the caller
        run(out=tmp_path / "run", **settings)
        model = run(out=tmp_path / "run", resume=True, epochs=5, **settings)
        assert mlflow.active_run().info.run_id == outer.info.run_id
    client = mlflow.MlflowClient()
    resumed, fresh = client.search_runs(["0"], f"tags.mlflow.parentRunId = '{outer.info.run_id}'")
    names = {"nDCG@10": "nDCG_at_10", "nDCG(gain='linear')@5": "nDCG_gain_linear_at_5"}
    for logged, rows in ((fresh, model.history[:3]), (resumed, model.history[3:])):
        assert logged.data.params["metric"] == metric
        assert logged.info.status == "FINISHED"
        for name, wanted in (("loss", "loss"), (names[metric], metric)):
            kept = client.get_metric_history(logged.info.run_id, name)
            assert [(each.step, each.value) for each in kept] == [(row["epoch"], row[wanted]) for row in rows]


def test_a_tracker_that_cannot_start_is_named(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "unknown://store")
    with pytest.raises(ValueError, match="the tracker 'mlflow' must start; got the error"):
        run(out=tmp_path / "run", trackers=("mlflow",))
    if find_spec("wandb") is None:
        with pytest.raises(ValueError, match="the tracker 'wandb' must be installed; got the error"):
            run(out=tmp_path, trackers=("wandb",))


def test_saved_and_loaded_it_scores_the_same(tmp_path):
    model = run(preprocess="log1p,standardise", out=tmp_path / "run")
    model.save(tmp_path / "saved")
    scores = model.score(LISTS.test.features, LISTS.test.offsets)
    for folder in ("run", "saved"):
        assert np.array_equal(Model.load(tmp_path / folder).score(LISTS.test.features, LISTS.test.offsets), scores)


@pytest.mark.parametrize("folder", sorted(MODELS.glob("*")), ids=lambda path: path.name)
def test_models_of_earlier_formats_keep_loading(folder):
    expected = json.loads((folder / "expected.json").read_text())
    scores = Model.load(folder).score(np.array(expected["features"], dtype=np.float32), np.array(expected["offsets"]))
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-5)


def test_a_model_folder_cannot_run_code(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (Path.touch, (ran,))

    run(out=tmp_path / "good")
    for name in ("model.safetensors", "preprocessing.safetensors", "config.json", "metrics.json"):
        shutil.copytree(tmp_path / "good", tmp_path / name)
        (tmp_path / name / name).write_bytes(pickle.dumps(Evil()))
        with pytest.raises(ValueError):  # noqa: PT011
            Model.load(tmp_path / name)
    for ranker in ({"model": "os.system", "features": 1}, {"model": "mlp", "features": 10, "activation": "__import__"}):
        config = json.loads((tmp_path / "good" / "config.json").read_text())
        config.pop("sha256", None)
        (tmp_path / "good" / "config.json").write_text(json.dumps({**config, "ranker": ranker}))
        with pytest.raises(ValueError, match="must be a model whose files match each other"):
            Model.load(tmp_path / "good")
    assert not ran.exists()
    for path in SOURCE.rglob("*.py"):
        if path.name == "numba_cache.py":  # compiled code, from a folder that only this user can write to
            continue
        text = path.read_text()
        assert not [word for word in ("import pickle", "torch.load(", "allow_pickle=True") if word in text], path


def test_a_folder_that_is_no_model_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"must be the folder of a model, with config\.json; got no such file"):
        Model.load(tmp_path)
    run(out=tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="the training stopped before the end of the first epoch"):
        Model.load(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    text = re.sub(',\n "sha256": ".*"', "", config.read_text())
    config.write_text(text.replace('"version": 1', '"version": 99'))
    with pytest.raises(ValueError, match=r"\(a newer rankgrad may have written it\); got 99"):
        Model.load(tmp_path / "run")
    with pytest.raises(ValueError, match="features must have 10 columns, as in training"):
        run().score(np.zeros((3, 4), dtype=np.float32))


def test_data_on_the_device_is_gathered_as_the_stream_reads_it():
    plan = BatchSchedule(LISTS.train.labels, LISTS.train.offsets, seed=0, batch=8).steps(0)
    steps = Preprocessing.parse("standardise").fit(LISTS.train)
    weights = torch.arange(len(LISTS.train.labels), dtype=torch.float32)
    sources = [
        kind(LISTS.train, steps, weights, torch.device("cpu")).batches(plan) for kind in (DeviceData, StreamedData)
    ]
    for ours, theirs in zip(*sources, strict=True):
        assert ours.columns == theirs.columns == {}
        for left, right in zip(ours[:5], theirs[:5], strict=True):
            assert torch.equal(torch.as_tensor(left), torch.as_tensor(right))


def test_the_groups_of_the_optimiser():
    ranker = torch.nn.Linear(2, 1)
    loss = torch.nn.Linear(1, 1)
    optimiser = make_optimiser("adamw:eps=1e-6", ranker, loss, lr=0.1, loss_lr=0.01, weight_decay=0.3)
    assert [(group["lr"], group["weight_decay"], group["eps"]) for group in optimiser.param_groups] == [
        (0.1, 0.3, 1e-6),
        (0.01, 0.0, 1e-6),
    ]
