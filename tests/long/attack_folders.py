"""Damage to folders that are received or kept: models, runs to resume, caches of data.

Bits flipped, files cut, removed, swapped, linked, and JSON with hostile values. What is loaded or resumed is what it
was, or there is one sentence that names the folder. Nothing is written outside of it.
"""

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import torch
from damage import HARMS, command, edited, refused
from damage import home as new_home
from safetensors.torch import load_file, save_file

from rankgrad.atomic_files import read_tensors
from rankgrad.data import open_cache, read_letor
from rankgrad.estimators.blend import Blend
from rankgrad.estimators.neural import Ranker
from rankgrad.models import load as read_model
from rankgrad.training import NotFinite

ROWS = "".join(f"{row % 3} qid:q{row // 6} 1:{row % 11} 2:0.5 3:{row / 7}\n" for row in range(120))
ARRAYS = ("features", "labels", "offsets", "qids")


@cache
def prepared():
    """Folders that are whole, and what they give."""
    home = new_home()
    torch.set_num_threads(1)
    (home / "train.txt").write_text(ROWS)
    lists = read_letor(home / "train.txt", cache=home / "cache")
    for name, seed, epochs in (("run", 0, 2), ("other", 1, 2), ("longer", 0, 3)):
        arguments = ["train", "--data", str(home / "train.txt"), "--out", str(home / name), "--epochs", epochs]
        settings = ["--model", "mlp:widths=4", "--loss", "softmax", "--seed", seed, "--device", "cpu"]
        command([*arguments, *settings])
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
        return refused(error, place)
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
        command(["train", "--resume", "--epochs", 3, "--out", str(place)])
        found = read_tensors(place / "model.safetensors")[0]
    except (ValueError, OSError) as error:
        return refused(error, place)
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
        ended = refused(error, place)
    try:
        found = read_letor(home / "train.txt", cache=place)
        if how != "edited":
            assert _same(found, lists), f"other data after: {how}"
    except (ValueError, OSError) as error:
        refused(error, place)
    return ended


def _same(left, right):
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in ARRAYS)


def _damage(rng, folder, other, outside):
    """Do one harm to one file; how it is called."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    kind = str(rng.choice([*HARMS, "flipped", "edited", "edited"]))
    if kind in HARMS:
        others = [*(file for file in other.iterdir() if file.name == path.name), *folder.rglob("*.*")]
        targets = [outside / path.name, outside, outside / "nothing", path, Path("/dev/zero")]
        HARMS[kind](rng, path, others, targets)
    elif path.suffix == ".json" and path.name != "model.json":
        value = json.loads(path.read_bytes())
        value.pop("sha256", None)
        path.write_text(json.dumps(edited(rng, value)))
    elif path.suffix == ".safetensors":
        _, facts = read_tensors(path)
        tensors = load_file(path)
        facts = {"facts": json.dumps(edited(rng, facts))} if facts else None
        if rng.random() < 0.3:
            del tensors[str(rng.choice(sorted(tensors)))]
        save_file(tensors, path, facts)
    return kind


def _content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
