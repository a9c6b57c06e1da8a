"""Damage to folders of text: bi-encoders, static encoders and cross-encoders with their encoder, indexes.

Bits flipped, files cut, removed, added, swapped or linked, values of JSON edited, tensors removed. The scores and runs
are those of the whole folder, or there is one sentence that names the folder. Nothing is downloaded. What was edited by
hand, with its hash removed, may score differently, but is read or refused in the same way.
"""

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import torch
from damage import HARMS, command, edited, refused
from damage import home as new_home
from no_hub import no_hub
from safetensors.torch import load_file, save_file
from tiny_collection import WORDS, tiny_collection
from tiny_encoder import tiny_encoder

import rankgrad as rg
from rankgrad.models import load as read_model
from rankgrad.text.encoder_seal import SEAL

TEXTS = ["a wing flap", "heat of a slab", "nothing known", ""]


@cache
def prepared():
    """Folders that are whole, and what they give."""
    home = new_home()
    torch.set_num_threads(1)
    encoder = str(tiny_encoder(home / "pretrained", words=WORDS, positions=64, hidden=16, dropout=0.0))
    rg.text.BiEncoderRanker(encoder, device="cpu").save(home / "bi")
    rg.text.BiEncoderRanker(f"static:{encoder}", device="cpu").save(home / "static")
    files = tiny_collection(home / "collection")
    collection = rg.text.load(files)
    run = rg.text.BM25Index.build(collection.documents).search(collection.queries, k=8)
    data = rg.text.candidate_lists(collection, run, add_relevant=True)
    rg.text.CrossEncoderRanker(encoder, device="cpu", epochs=1, list_size=4).fit(
        data.take(slice(3)), out=home / "cross"
    )
    command(["text", "index", files, "--out", home / "index"])
    (home / "runs").mkdir()
    _search(home / "index", home / "bi", home / "runs", "--keep")
    scores = {name: _scores(home / name) for name in ("bi", "static", "cross")}
    return home, scores, {path.name: path.read_bytes() for path in (home / "runs").iterdir()}


def case(rng, folder):
    prepared()
    with no_hub() as called:
        ended = rng.choice([_model, _model, _model, _unsealed, _index])(rng, folder)
    assert not called, f"the hub was asked: {called[0]}"
    return ended


def _model(rng, folder):
    """A text model with one damaged file."""
    home, expected, _ = prepared()
    name = str(rng.choice(list(expected)))
    place = shutil.copytree(home / name, folder / name)
    how = _damage(rng, place, home)
    try:
        scores = _scores(place)
    except (ValueError, OSError) as error:
        return refused(error, place)
    if how != "edited by hand":
        assert np.array_equal(scores, expected[name]), f"other scores after: {how}"
    return "equal"


def _unsealed(rng, folder):
    """A text model as of version 0.2, without hashes in its encoder, with one damaged file there."""
    home, expected, _ = prepared()
    name = str(rng.choice(list(expected)))
    place = shutil.copytree(home / name, folder / name)
    (place / "encoder" / SEAL).unlink()
    how = _damage(rng, place / "encoder", home)
    try:
        scores = _scores(place)
    except (ValueError, OSError) as error:
        return refused(error, place)
    assert scores.shape == expected[name].shape
    assert np.array_equal(_scores(place), scores, equal_nan=True), f"random scores after: {how}"
    return "read"


def _index(rng, folder):
    """An index with one damaged file: searched by words and by embeddings, and measured with its labels."""
    home, _, expected = prepared()
    place = shutil.copytree(home / "index", folder / "index")
    how = _damage(rng, place, home)
    (folder / "runs").mkdir()
    try:
        _search(place, home / "bi", folder / "runs")
    except (ValueError, OSError) as error:
        return refused(error, place)
    found = {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}
    if how != "edited by hand":
        assert found == expected, f"other runs after: {how}"
    return "equal"


def _scores(folder):
    with torch.inference_mode():
        return read_model(folder).network.score_texts(["a wing of what number"] * len(TEXTS), TEXTS).numpy()


def _search(index, model, out, *keep):
    command(["text", "search", index, "--k", 5, "--out", out / "bm25.txt"])
    words = ["--encoder", model, "--device", "cpu", "--k", 5, "--out", out / "dense.txt", *keep]
    command(["text", "search", index, *words])
    told = command(["text", "evaluate", index, out / "bm25.txt", "--each", "--bootstrap", 10])
    (out / "told").write_text(told.replace(str(out), ""))


def _damage(rng, folder, home):
    """Do one harm to one file; how it is called."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".complete"))
    path = files[int(rng.integers(len(files)))]
    kind = str(rng.choice([*HARMS, "flipped", "added", "changed", "changed"]))
    if kind in HARMS:
        targets = [home / "nothing", path, Path("/dev/zero"), home]
        HARMS[kind](rng, path, home.rglob(f"*{path.suffix}"), targets)
    elif kind == "added":
        names = (
            "adapter_config.json",
            "added_tokens.json",
            "vocab.txt",
            "special_tokens_map.json",
            "0_StaticEmbedding/x",
        )
        added = path.parent / str(rng.choice(names))
        added.parent.mkdir(exist_ok=True)
        added.write_text(json.dumps({"base_model_name_or_path": "org/name", "wing": 5}))
    elif path.suffix == ".json":
        value = json.loads(path.read_bytes())
        by_hand = isinstance(value, dict) and "sha256" in value and rng.random() < 0.7
        if by_hand:
            del value["sha256"]
        path.write_text(json.dumps(edited(rng, value)))
        return "edited by hand" if by_hand else "edited"
    elif path.suffix == ".safetensors":
        tensors = load_file(path)
        name = str(rng.choice(sorted(tensors)))
        changed = tensors.pop(name)
        if rng.random() < 0.5:
            tensors[name] = (changed * 2, changed.flatten()[:-1].clone(), changed.half(), changed.flatten())[
                rng.integers(4)
            ]
        save_file(tensors, path, {"format": "pt"})
    elif path.suffix == ".npy":
        path.write_bytes(path.read_bytes().replace(b"<f4", b"<i4", 1))
    return kind
