"""Folders of models and runs: damage is noticed, links are not followed, and one run at a time is at work."""

import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from programs import invoke as command
from safetensors.torch import load_file, save_file

from rankgrad import blend, lock
from rankgrad.atomic_files import aside, read_json, read_tensors, write_bytes, write_json, write_tensors
from rankgrad.data import load, read_letor
from rankgrad.data.cache import CacheError
from rankgrad.estimators.neural import Ranker
from rankgrad.lock import locked
from rankgrad.models import load as read_model
from rankgrad.surrogate import PretrainSpec, pretrain
from rankgrad.training import Model, Settings, train
from rankgrad.trees import TreeRanker

DATA = "synthetic:lists=20,features=10"
LISTS = load(DATA)
SETTINGS = Settings(model="linear", loss="softmax", epochs=2, device="cpu")
COMMAND = ("train", "--data", DATA, "--model", "linear", "--loss", "softmax", "--device", "cpu", "--epochs", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that nobody may change."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(SETTINGS, LISTS.train, LISTS.validation, out=folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "run"))


def resume(folder, **changes):
    settings = Settings(**{"model": "linear", "loss": "softmax", "epochs": 3, "device": "cpu", **changes})
    return train(settings, LISTS.train, LISTS.validation, out=folder, resume=True)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("model.safetensors", None),
        ("preprocessing.safetensors", None),
        ("config.json", b'"lr": 0.00'),
        ("metrics.json", b'"epoch": '),
    ],
)
def test_a_flipped_bit_in_a_model_is_noticed(run, name, after):
    content = (run / name).read_bytes()
    flip(run / name, -3 if after is None else content.index(after) + len(after))
    with pytest.raises(ValueError, match=rf"^{run}/{name} must be [^\n]*restore the file[^\n]*; got [^\n]+$"):
        Model.load(run)


def test_a_flipped_bit_in_a_checkpoint_is_noticed(run):
    flip(run / "last.safetensors", -5)
    with pytest.raises(ValueError, match=r"last\.safetensors must be .*restore the file.*; got damaged content"):
        resume(run)


def test_a_flipped_bit_in_a_blend_or_in_trees_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    parts = [Ranker(model="linear", epochs=1, seed=seed).fit(X, y, qid=qid) for seed in (0, 1)]
    blend(parts).fit(X, y, qid=qid).save(tmp_path / "blend")
    read_model(tmp_path / "blend")
    (tmp_path / "blend" / "part-1").rename(tmp_path / "one")
    (tmp_path / "blend" / "part-2").rename(tmp_path / "blend" / "part-1")
    (tmp_path / "one").rename(tmp_path / "blend" / "part-2")
    with pytest.raises(ValueError, match="must contain the parts with which the blend was saved"):
        read_model(tmp_path / "blend")
    pytest.importorskip("lightgbm")
    TreeRanker(trees=2, num_leaves=3, threads=1).fit(X, y, qid=qid).save(tmp_path / "trees")
    read_model(tmp_path / "trees")
    path = tmp_path / "trees" / "model.txt"
    path.write_text(path.read_text().replace("leaf_value=", "leaf_value=9", 1))
    with pytest.raises(ValueError, match=r"model\.txt must match its hash in config\.json \(.*; got different content"):
        read_model(tmp_path / "trees")


def test_files_of_two_runs_are_not_mixed(run, tmp_path):
    train(Settings(model="linear", loss="softmax", epochs=2, device="cpu", seed=1), LISTS.train, out=tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", run)
    with pytest.raises(ValueError, match=r"from the same training run \(otherwise.*; got files from different runs"):
        Model.load(run)


def test_a_run_of_version_0_1_goes_on(run, tmp_path):
    whole = resume(Path(shutil.copytree(run, tmp_path / "copy")))
    for path in run.glob("*.safetensors"):
        _, facts = read_tensors(path)
        facts.pop("run")
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
        save_file(tensors, path, {"facts": json.dumps(facts)} if facts else None)
    config = read_json(run / "config.json")
    config.pop("run")
    write_json(run / "config.json", config)
    model = resume(run)
    assert all(torch.equal(value, whole.ranker.state_dict()[name]) for name, value in model.ranker.state_dict().items())
    Model.load(run)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_tensors(tmp_path / name, {"x": torch.ones(3), "y": torch.zeros(0, 2)}, {"b": 1, "a": [2.5]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_tensors(tmp_path / "a")[1] == {"b": 1, "a": [2.5]}


def test_what_is_hostile_in_json_is_one_sentence(run):
    odd = ('{"epoch": ""}', '{"trees": -1}', '{"validation": 3}')
    for text in ('{"a":' * 100_000, "[1]", '{"epoch": NaN}', *odd, "\xff"):
        (run / "metrics.json").write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=r"^[^\n]*metrics\.json must [^\n]*$"):
            Model.load(run)
    config = read_json(run / "config.json")
    config["ranker"]["features"] = 10**12  # would be 4 terabytes
    write_json(run / "config.json", config)
    with pytest.raises(ValueError, match="must be a model whose files match each other"):
        Model.load(run)


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".new.json.{os.getpid()}").symlink_to(victim)
    write_bytes(tmp_path / "new.json", b"1")
    (tmp_path / "linked.json").symlink_to(victim)
    write_bytes(tmp_path / "linked.json", b"2")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "linked.json").is_symlink()
    assert aside(victim) != aside(victim)


@pytest.mark.parametrize("name", ["log.jsonl", ".lock", "tensorboard"])
def test_a_run_does_not_write_through_a_link(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    with pytest.raises((ValueError, OSError), match=name.replace(".", r"\.")):
        resume(run)
    assert victim.read_text() == "mine"


def test_resume_does_not_write_where_the_folder_says(tmp_path):
    rows = "".join(f"{row % 3} qid:{row // 6} 1:{row % 11} 2:0.5\n" for row in range(120))
    (tmp_path / "train.txt").write_text(rows)
    given = ("--data", tmp_path / "train.txt", "--cache", tmp_path / "mine", "--out", tmp_path / "run")
    assert command("train", *given, "--model", "linear", "--epochs", 1).exit_code == 0
    told = read_json(tmp_path / "run" / "data.json")
    write_json(tmp_path / "run" / "data.json", {**told, "cache": str(tmp_path / "theirs")})
    assert command("train", "--resume", "--epochs", 2, "--out", tmp_path / "run").exit_code == 0
    assert command("evaluate", tmp_path / "run", "--split", "validation").exit_code == 0
    assert not (tmp_path / "theirs").exists()


def test_a_refused_resume_changes_nothing(tmp_path):
    assert command(*COMMAND, "--out", tmp_path / "run").exit_code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    other = command("train", "--resume", "--data", "synthetic:lists=30,features=10", "--out", tmp_path / "run")
    assert "data must equal the data of" in str(other.exception)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_one_run_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.05)
    out = tmp_path / "out"
    out.mkdir()
    tuning = ("tune", "--data", DATA, "--model", "linear", "--budget", 1, "--epochs", 1, "--jobs", 1)
    with open(out / ".lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for arguments in (COMMAND, (*COMMAND[:3], "--model", "lightgbm"), tuning, ("pretrain-loss", "--epochs", 1)):
            said = str(command(*arguments, "--out", out).exception)
            assert said == f"out must be a folder that no other run uses; got {out}"
        with pytest.raises(ValueError, match="no other run uses"):
            train(SETTINGS, LISTS.train, out=out)
        with pytest.raises(ValueError, match="no other run uses"):
            pretrain(PretrainSpec(lists=128, epochs=1), out)
        assert [path.name for path in out.iterdir()] == [".lock"]
    train(SETTINGS, LISTS.train, out=out)  # a lock whose holder is gone is none
    assert not (out / ".lock").exists()


def test_a_holder_may_enter_again_but_no_other_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.05)
    failed = []

    def other():
        try:
            with locked(tmp_path / "a"):
                pass
        except ValueError as error:
            failed.append(error)

    with locked(tmp_path / "a"), locked(tmp_path / "a", again=True):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(failed) == 1
    other()
    assert len(failed) == 1
    assert not (tmp_path / "a").exists()  # made for nothing


def test_what_a_killed_run_left_is_removed(run):
    gone = [
        ".last.safetensors.4194999",
        aside(run / "last.safetensors").name,
        ".model.safetensors.elsewhere.7." + 32 * "a",
    ]
    gone[1] = gone[1].replace(f".{os.getpid()}.", ".4194999.")
    live = aside(run / "scores.txt").name.replace(f".{os.getpid()}.", f".{os.getppid()}.")
    for name in (*gone, live):
        (run / name).write_text("half")
    resume(run)
    assert {path.name for path in run.iterdir() if path.name.startswith(".")} == {live}


@pytest.mark.parametrize("there", [True, False])
def test_a_cache_that_is_a_link_is_refused_before_the_text_is_read(tmp_path, monkeypatch, there):
    (tmp_path / "train.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    if there:
        read_letor(tmp_path / "train.txt", missing=0.0, cache=tmp_path / "elsewhere")
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")

    def read(*_):
        raise AssertionError("the text was read")

    monkeypatch.setattr("rankgrad.data.letor.reader.read_files", read)
    with pytest.raises(CacheError, match=r"cache: is a symbolic link to .*elsewhere; expected a new folder"):
        read_letor(tmp_path / "train.txt", cache=tmp_path / "cache")


def test_a_full_disk_names_the_file(run):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    whole = (run / "last.safetensors").read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, hard))
    try:
        with pytest.raises(OSError, match=r"/(model|last|preprocessing)\.safetensors'$|/[a-z.]*json[l]?'$") as caught:
            resume(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert (run / "last.safetensors").read_bytes() == whole
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_training_that_diverges_says_so(tmp_path):
    settings = Settings(model="linear", loss="softmax", epochs=3, lr=1e9, device="cpu")
    with pytest.warns(UserWarning, match="training diverges: the loss has grown to .* A smaller lr or clip=1") as said:
        train(settings, LISTS.train, LISTS.validation, out=tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [row["warning"] for row in rows if "warning" in row] == [str(said[0].message)]
    result = command(*COMMAND[:-1], 3, "--lr", 1e9, "--out", tmp_path / "command")
    assert result.output.count("warning: training diverges") == 1
    assert "training diverges" not in command(*COMMAND, "--out", tmp_path / "well").output


def test_a_model_is_not_saved_over_a_training_run(tmp_path):
    X, qid = np.random.default_rng(0).normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    y = (X[:, 0] > 0).astype(int)
    net = Ranker(model="linear", epochs=1, out=tmp_path / "run").fit(X, y, qid=qid)
    trees = TreeRanker(trees=2, num_leaves=3, threads=1).fit(X, y, qid=qid)
    both = blend([net, trees]).fit(X, y, qid=qid)
    files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    (tmp_path / "command").mkdir()
    (tmp_path / "command" / "run.json").write_text("{}")
    for ranker in (net, trees, both):
        for model in (ranker, ranker.model_):
            with pytest.raises(ValueError, match=r"\(choose another folder\); got a folder with last\.safetensors"):
                model.save(tmp_path / "run")
            with pytest.raises(ValueError, match=r"must be a folder without a training run .* with run\.json"):
                model.save(tmp_path / "command")
            model.save(tmp_path / "saved")  # replaces the earlier model
            model.save(tmp_path / "saved")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == files
    assert [path.name for path in (tmp_path / "command").iterdir()] == ["run.json"]
