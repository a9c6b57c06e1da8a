"""Killed at any moment, nothing is lost; many processes do what one does."""

import dataclasses
import json
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from paths import TESTS
from programs import program

from rankgrad import Ranker
from rankgrad.atomic_files import read_tensors
from rankgrad.data import load
from rankgrad.models.registry import kind_named
from rankgrad.training import Settings, train

SCRIPT = TESTS / "training_script.py"
# Everything that has a state: dropout, batch norm, a loss to train, an average, a plateau, a draw of documents.
SETTINGS = {
    "model": "mlp:widths=16,dropout=0.2,norm=batch", "loss": "learndcg:discount=curved", "epochs": 30, "batch_size": 8,
    "list_size": 12, "ema": 0.9, "schedule": "plateau:patience=1", "warmup": 2, "clip": 1.0, "patience": None,
    "save_steps": 3, "device": "cpu",
}  # fmt: skip


def start(out, settings, **environment):
    return program(out, json.dumps(settings), code=SCRIPT.read_text(), **environment)


def finish(process):
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 0, error


def run_two(out, settings):
    """Two processes that know of each other, as `torchrun` starts them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", **place}
    both = [start(out, settings, RANK=str(n), LOCAL_RANK=str(n), TORCHELASTIC_RUN_ID="x", **common) for n in range(2)]
    for process in both:
        finish(process)


def run_torchrun(out, settings):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*launcher, str(SCRIPT), str(out), json.dumps(settings)], check=True, timeout=300)


def same(left, right, names=("model.safetensors", "last.safetensors")):
    for name in names:
        ours, theirs = read_tensors(left / name)[0], read_tensors(right / name)[0]
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert torch.equal(value, theirs[key]), f"{name}: {key}"
    rows = [[json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()] for folder in (left, right)]
    for row in (*rows[0], *rows[1]):
        del row["seconds"], row["judge_seconds"]
    assert rows[0] == rows[1]
    assert (left / "metrics.json").read_text() == (right / "metrics.json").read_text()


def killed_run(out, settings, kills, seed):
    """A run that is killed at random moments after its first checkpoint, and resumed each time."""
    rng, done = random.Random(seed), 0
    for _ in range(kills):
        process = start(out, settings)
        before = (out / "last.safetensors").stat().st_mtime_ns if (out / "last.safetensors").exists() else None
        while process.poll() is None:  # until it has resumed
            if (out / "last.safetensors").exists() and (out / "last.safetensors").stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done += process.returncode == -signal.SIGKILL
    finish(start(out, settings))
    return done


@pytest.mark.parametrize(("adapt", "kills"), [("joint", 1), ("heldout", 2)])
@pytest.mark.long  # the standing attack kills a run in every test
def test_a_killed_run_ends_in_the_same_weights(tmp_path, adapt, kills):
    settings = {**SETTINGS, "loss": f"learndcg:discount=curved,adapt={adapt}"}
    finish(start(tmp_path / "whole", settings))
    assert killed_run(tmp_path / "killed", settings, kills=kills, seed=0) > 0
    same(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.long
@pytest.mark.parametrize("model", ["mlp:widths=16,dropout=0.2", "context_aware:width=16,blocks=1,dropout=0.1"])
def test_a_run_killed_ten_times_ends_in_the_same_weights(tmp_path, model):
    settings = {**SETTINGS, "model": model, "epochs": 60}
    finish(start(tmp_path / "whole", settings))
    assert killed_run(tmp_path / "killed", settings, kills=10, seed=1) > 5
    same(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize(
    ("model", "adapt", "run"),
    [
        pytest.param("mlp:widths=16", "joint", run_torchrun, marks=pytest.mark.long),
        ("mlp:widths=16", "heldout", run_two),
        pytest.param("context_aware:width=16,blocks=1,heads=1,dropout=0", "joint", run_two, marks=pytest.mark.long),
    ],
)
def test_two_processes_do_what_one_does(tmp_path, model, adapt, run):
    # 57 lists in batches of 7: batches do not divide by two, and the last has one list for two processes. Not Adam: it
    # divides by the gradient's size, and that of the last bias is rounding: adding to all scores changes nothing.
    loss = f"learndcg:discount=curved,adapt={adapt}"
    settings = {"model": model, "loss": loss, "epochs": 3, "batch_size": 7, "device": "cpu"}
    settings |= {"optimiser": "sgd", "lr": 0.3}
    finish(start(tmp_path / "one", settings))
    run(tmp_path / "two", settings)
    one, two = (read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("one", "two"))
    begin = train(Settings.of({**settings, "epochs": 1, "lr": 1e-12}), load("synthetic:lists=57,features=10").train)
    moved = 0.0
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-4, atol=1e-5)
        if name.startswith("ranker."):
            moved = max(moved, float((value - begin.ranker.state_dict()[name.removeprefix("ranker.")]).abs().max()))
    assert moved > 1e-3  # or else equality says nothing
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("one", "two")]
    for left, right in zip(*logs, strict=True):
        left, right = json.loads(left), json.loads(right)
        assert left["loss"] == pytest.approx(right["loss"], rel=1e-4)
        assert left["nDCG@10"] == pytest.approx(right["nDCG@10"], abs=1e-3)


def test_two_processes_resume_each_with_its_random_state(tmp_path):
    settings = {"model": "mlp:widths=16,dropout=0.5", "loss": "softmax", "batch_size": 7, "patience": None}
    settings |= {"epochs": 2, "device": "cpu"}
    run_two(tmp_path / "whole", settings)
    run_two(tmp_path / "stopped", {**settings, "epochs": 1})
    run_two(tmp_path / "stopped", settings)
    same(tmp_path / "whole", tmp_path / "stopped", ("model.safetensors",))


def test_other_settings_or_data_are_not_resumed(tmp_path):
    lists = load("synthetic:lists=57,features=10")
    settings = Settings(model="linear", epochs=1, device="cpu")
    train(settings, lists.train, out=tmp_path)
    with pytest.raises(ValueError, match="must be a new folder, unless the run is resumed"):
        train(settings, lists.train, out=tmp_path)
    with pytest.raises(ValueError, match=r"lr must be 0.001, to resume .*; got 0.1"):
        train(Settings(model="linear", epochs=1, device="cpu", lr=0.1), lists.train, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="data must equal the data of the run"):
        train(settings, lists.test, out=tmp_path, resume=True)


@pytest.mark.parametrize("front", ["neural", "lightgbm"])
def test_a_run_with_other_training_columns_is_not_resumed(tmp_path, front):
    kind = kind_named(front)

    def fit(epochs, **columns):
        data = dataclasses.replace(load("synthetic:lists=57,features=10").train, columns=columns or None)
        settings = {"model": "linear" if front == "neural" else front, "loss": "softmax", kind.length: epochs}
        return kind.fit(settings, data, out=tmp_path, resume=True, progress=False)

    place = np.arange(len(load("synthetic:lists=57,features=10").train.labels), dtype=np.float32)
    fit(1, place=place)
    for other in ({"place": place[::-1]}, {"rank": place}, {}):
        with pytest.raises(ValueError, match="data must equal the data of the run"):
            fit(2, **other)
    assert len(fit(2, place=place).history) == 2


def test_a_fit_with_other_weights_is_not_resumed(tmp_path):
    data = load("synthetic:lists=57,features=10").train
    ones, others = np.ones(len(data.labels)), np.linspace(0.5, 2.0, len(data.labels))

    def fit(name, weights, epochs=1):
        ranker = Ranker("linear", epochs=epochs, device="cpu", out=tmp_path / name)
        return ranker.fit(data.features, data.labels, qid=data.row_qids, sample_weight=weights, resume=True)

    fit("weighted", others)
    fit("unweighted", None)
    must = "document weights must be the same as in the stopped run, to resume .*; got"
    with pytest.raises(ValueError, match=f"^{must} different weights$"):
        fit("weighted", ones, epochs=2)
    with pytest.raises(ValueError, match=f"^{must} none, but the run had weights$"):
        fit("weighted", None, epochs=2)
    with pytest.raises(ValueError, match=f"^{must} weights, but the run had none$"):
        fit("unweighted", ones, epochs=2)
    assert len(fit("weighted", others.astype(np.float32), epochs=2).history_) == 2
    assert len(fit("unweighted", None, epochs=2).history_) == 2


@pytest.mark.parametrize("loss", ["lambdaloss", "learndcg:adapt=heldout"])
def test_a_finished_run_can_be_made_longer(tmp_path, loss):
    lists = load("synthetic:lists=57,features=10")
    for epochs in (2, 5):
        settings = Settings(model="mlp:widths=8", loss=loss, epochs=epochs, device="cpu")
        train(settings, lists.train, lists.validation, out=tmp_path / "longer", resume=True)
    train(settings, lists.train, lists.validation, out=tmp_path / "whole")
    same(tmp_path / "longer", tmp_path / "whole")


@pytest.mark.parametrize("rows", [6, 1])  # epochs in the log when the run is killed
def test_an_estimator_resumes_a_killed_fit(tmp_path, rows):
    whole, killed = (fitted_in(tmp_path / name) for name in ("whole", "killed"))
    finish(whole)
    log = tmp_path / "killed" / "log.jsonl"
    until = time.monotonic() + 60
    while not (log.exists() and len(log.read_text().splitlines()) >= rows) and killed.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)
    killed.kill()
    killed.wait()
    finish(fitted_in(tmp_path / "killed"))
    same(tmp_path / "whole", tmp_path / "killed")


def fitted_in(out):
    """A process that fits an estimator with `out`, and resumes if there is a checkpoint."""
    code = """
        import sys
        import rankgrad as rg
        data = rg.data.synthetic(60, features=10, seed=0).train
        ranker = rg.Ranker("mlp:widths=8,dropout=0.2", epochs=40, patience=None, device="cpu", out=sys.argv[1])
        ranker.fit(data.features, data.labels, qid=data.row_qids, resume=True)
        assert [row["epoch"] for row in ranker.history_] == list(range(1, 41))
    """
    return program(out, code=textwrap.dedent(code))


def test_a_resumed_estimator_needs_a_folder():
    with pytest.raises(ValueError, match="out must be the folder of the run if resume is True; got None"):
        Ranker().fit([[0.0], [1.0]], [0, 1], group=[2], resume=True)
