"""Damage to folders that are received or kept: models, runs to resume, caches of data.

Bits flipped, files cut, removed, swapped, linked, and JSON with hostile values. What is loaded or resumed is what it
was, or there is one sentence that names the folder. Nothing is written outside of it.
"""

import atexit
import json
import os
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from rankgrad.atomic_files import read_tensors
from rankgrad.data import open_cache, read_letor
from rankgrad.estimators.blend import Blend
from rankgrad.estimators.neural import Ranker
from rankgrad.models import load as read_model
from rankgrad.training import NotFinite

ROWS = "".join(f"{row % 3} qid:q{row // 6} 1:{row % 11} 2:0.5 3:{row / 7}\n" for row in range(120))
HOSTILE = (
    None, True, -1, 0, 3, 0.5, 1e308, -1e308, 10**18, 10**30, "", "x", "../../outside/made", "/dev/zero", "\0",
    "é" * 500, [], {}, [1, "a"], {"a": {"b": []}}, [[[[[]]]]],
)  # fmt: skip
ARRAYS = ("features", "labels", "offsets", "qids")


@cache
def prepared():
    """Folders that are whole, and what they give."""
    home = Path(tempfile.mkdtemp(prefix="rankgrad-attack-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    torch.set_num_threads(1)
    (home / "train.txt").write_text(ROWS)
    lists = read_letor(home / "train.txt", cache=home / "cache")
    for name, seed, epochs in (("run", 0, 2), ("other", 1, 2), ("longer", 0, 3)):
        arguments = ["train", "--data", str(home / "train.txt"), "--out", str(home / name), "--epochs", epochs]
        settings = ["--model", "mlp:widths=4", "--loss", "softmax", "--seed", seed, "--device", "cpu"]
        _command([*arguments, *settings])
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    parts = [Ranker(model="linear", epochs=1, seed=seed, device="cpu").fit(X, y, qid=qid) for seed in (0, 1)]
    Blend(parts).fit(X, y, qid=qid).save(home / "blend")
    try:
        from rankgrad.trees import TreeRanker

        TreeRanker(trees=3, num_leaves=3, min_data_in_leaf=1, threads=1).fit(X, y, qid=qid).save(home / "trees")
    except ImportError:
        pass
    models = [name for name in ("run", "blend", "trees") if (home / name).is_dir()]
    scores = {name: read_model(home / name).score(X, np.arange(0, 61, 5)) for name in models}
    weights = read_tensors(home / "longer" / "model.safetensors")[0]
    return home, lists, X, scores, weights


def case(rng, folder):
    home, *_ = prepared()
    what = rng.choice([_model, _model, _resumed, _cached])
    outside = folder / "outside"
    shutil.copytree(home / "run", outside)
    before = _content(outside)
    (folder / "here").mkdir()
    ended = what(rng, folder / "here", outside)
    assert _content(outside) == before, "something was written outside"
    assert {path.name for path in folder.iterdir()} == {"here", "outside"}
    return ended


def _model(rng, folder, outside):
    """A model, loaded and asked for scores."""
    home, _, X, expected, _ = prepared()
    name = str(rng.choice(list(expected)))
    place = folder / name
    shutil.copytree(home / name, place)
    how = _damage(rng, place, home / "other", outside)
    try:
        model = read_model(place)
        scores = model.score(X, np.arange(0, 61, 5))
        assert model.features == 3
    except (ValueError, OSError) as error:
        return _refused(error, place)
    if how != "edited":
        assert np.array_equal(scores, expected[name]), f"other scores after: {how}"
    return "equal"


def _resumed(rng, folder, outside):
    """A run that is to go on for one more epoch, by the command."""
    home, _, _, _, weights = prepared()
    place = folder / "run"
    shutil.copytree(home / "run", place)
    how = _damage(rng, place, home / "other", outside)
    there = {path.name for path in folder.iterdir()}
    try:
        _command(["train", "--resume", "--epochs", 3, "--out", str(place)])
        found = read_tensors(place / "model.safetensors")[0]
    except (ValueError, OSError) as error:
        return _refused(error, place)
    except NotFinite:
        assert how == "edited", how
        return "not finite"
    assert {path.name for path in folder.iterdir()} == there
    if how not in ("edited", "removed"):  # without its checkpoint or best model, a run begins again
        assert all(torch.equal(found[name], weights[name]) for name in weights), f"other weights after: {how}"
    return "equal"


def _cached(rng, folder, outside):
    """A cache of data: opened, and then brought up to date."""
    home, lists, *_ = prepared()
    place = folder / "cache"
    shutil.copytree(home / "cache", place)
    how = _damage(rng, place, home / "other", outside)
    ended = "equal"
    try:
        found = open_cache(place)
        if how != "edited":
            assert _same(found, lists), f"other data after: {how}"
    except (ValueError, OSError) as error:
        ended = _refused(error, place)
    try:
        found = read_letor(home / "train.txt", cache=place)
        if how != "edited":
            assert _same(found, lists), f"other data after: {how}"
    except (ValueError, OSError) as error:
        _refused(error, place)
    return ended


def _same(left, right):
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ARRAYS)


def _refused(error, folder):
    said = str(error)
    assert str(folder) in said, f"names no file: {type(error).__name__}: {said}"
    assert "\n" not in said, f"not one sentence: {said}"
    return "refused"


def _damage(rng, folder, other, outside):
    """Do one harm to one file; how it is called."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    content = bytearray(path.read_bytes())
    kind = rng.choice(
        ["flipped", "flipped", "cut", "longer", "removed", "swapped", "linked", "nested", "edited", "edited"]
    )
    if kind == "flipped":
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[: int(rng.integers(len(content)))])
    elif kind == "longer":
        path.write_bytes(content + rng.bytes(int(rng.integers(1, 100))))
    elif kind == "removed":
        path.unlink()
    elif kind == "swapped":
        files = [*(file for file in other.iterdir() if file.name == path.name), *folder.rglob("*.*")]
        path.write_bytes(rng.choice(sorted(file for file in files if file.is_file())).read_bytes())
    elif kind == "linked":
        path.unlink()
        target = outside / path.name
        path.symlink_to(rng.choice([target, outside, outside / "nothing", path, Path("/dev/zero")]))
    elif kind == "nested":
        path.write_text(str(rng.choice(["[", '{"a":', "9"])) * 100_000)
        return "nested"
    elif path.suffix == ".json" and path.name != "model.json":
        value = json.loads(content)
        value.pop("sha256", None)
        path.write_text(json.dumps(_edited(rng, value)))
    elif path.suffix == ".safetensors":
        _, facts = read_tensors(path)
        tensors = load_file(path)
        facts = {"facts": json.dumps(_edited(rng, facts))} if facts else None
        if rng.random() < 0.3:
            del tensors[str(rng.choice(sorted(tensors)))]
        save_file(tensors, path, facts)
    return str(kind)


def _edited(rng, value):
    """The value with something hostile somewhere in it."""
    if rng.random() < 0.1 or not isinstance(value, dict | list) or not value:
        return HOSTILE[int(rng.integers(len(HOSTILE)))]
    if isinstance(value, list):
        place = int(rng.integers(len(value)))
        return [*value[:place], _edited(rng, value[place]), *value[place + 1 :]]
    key = str(rng.choice(sorted(value)))
    if rng.random() < 0.1:
        return {name: inner for name, inner in value.items() if name != key}
    return {**value, key: _edited(rng, value[key])}


def _command(arguments):
    from rankgrad.cli import app

    before = os.getcwd()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert os.getcwd() == before
    if isinstance(result.exception, SystemExit):
        assert result.exit_code == 1
        raise NotFinite(result.output)
    if result.exception is not None:
        raise result.exception
    return result.output


def _content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
