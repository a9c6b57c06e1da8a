"""Damage to folders of text: bi-encoders, static encoders and cross-encoders with their encoder, indexes.

Bits flipped, files cut, removed, added, swapped or linked, values of JSON edited, tensors removed. The scores and runs
are those of the whole folder, or there is one sentence that names the folder. Nothing is downloaded. What was edited by
hand, with its hash removed, may score differently, but is read or refused in the same way.
"""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch
from attack_folders import _command, _edited, _refused
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
    home = Path(tempfile.mkdtemp(prefix="rankgrad-attack-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
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
    _command(["text", "index", files, "--out", home / "index"])
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
        return _refused(error, place)
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
        return _refused(error, place)
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
        return _refused(error, place)
    found = {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}
    if how != "edited by hand":
        assert found == expected, f"other runs after: {how}"
    return "equal"


def _scores(folder):
    with torch.inference_mode():
        return read_model(folder).network.score_texts(["a wing of what number"] * len(TEXTS), TEXTS).numpy()


def _search(index, model, out, *keep):
    _command(["text", "search", index, "--k", 5, "--out", out / "bm25.txt"])
    words = ["--encoder", model, "--device", "cpu", "--k", 5, "--out", out / "dense.txt", *keep]
    _command(["text", "search", index, *words])
    told = _command(["text", "evaluate", index, out / "bm25.txt", "--each", "--bootstrap", 10])
    (out / "told").write_text(told.replace(str(out), ""))


def _damage(rng, folder, home):
    """Do one harm to one file; how it is called."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".complete"))
    path = files[int(rng.integers(len(files)))]
    content = bytearray(path.read_bytes())
    kinds = [
        "flipped",
        "flipped",
        "cut",
        "longer",
        "removed",
        "swapped",
        "linked",
        "added",
        "nested",
        "changed",
        "changed",
    ]
    kind = str(rng.choice(kinds))
    if kind == "flipped" and content:
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(content[: int(rng.integers(len(content) + 1))])
    elif kind == "longer":
        path.write_bytes(content + rng.bytes(int(rng.integers(1, 100))))
    elif kind == "removed":
        path.unlink()
    elif kind == "swapped":
        others = sorted(each for each in home.rglob(f"*{path.suffix}") if each.is_file())
        path.write_bytes(others[int(rng.integers(len(others)))].read_bytes())
    elif kind == "linked":
        path.unlink()
        path.symlink_to(rng.choice([home / "nothing", path, Path("/dev/zero"), home]))
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
    elif kind == "nested":
        path.write_text(str(rng.choice(["[", '{"a":', "9"])) * 100_000)
    elif path.suffix == ".json":
        value = json.loads(content)
        by_hand = isinstance(value, dict) and "sha256" in value and rng.random() < 0.7
        if by_hand:
            del value["sha256"]
        path.write_text(json.dumps(_edited(rng, value)))
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
        path.write_bytes(bytes(content).replace(b"<f4", b"<i4", 1))
    return kind
