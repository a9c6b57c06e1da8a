"""Damaged and hostile results, packed studies and recipes: each loads right, or is refused by its name."""

import io
import json
import lzma
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import yaml
from made_results import make

from rankgrad.experiments import load_recipe
from rankgrad.experiments.report import writer
from rankgrad.experiments.runs.results import pack, read_results

_WILD = (None, True, -1, 0, 2**70, 1e308, float("nan"), "", "\x1b[2J", "\ud800", "x" * 1000, [], {}, [[]], {"a": [1]})
_TEXTS = (
    "&a [*a]", "!!python/name:os.system", "9" * 5000, "2001-99-99", "? [a]\n: b", "[" * 400, '"\\ud800"', "\t- a",
    "<<: 5", "!!binary aGk=", "!!set {a, b}", "1e999", "&a [1, 2]\nb: *a", "*b", "---\n---", "~", "0x" + "f" * 999,
)  # fmt: skip


@cache
def _base():
    folder = Path(tempfile.mkdtemp(prefix="rankgrad-attack-"))
    data = ("synthetic:lists=20,features=10,seed=1",)
    options = {"data": data, "rates": (0.001, 0.01), "epochs": 2, "seeds": (0, 1), "models": {"M": {"model": "linear"}}}
    made = make(folder / "made", **options, losses={"LearnDCG": "learndcg", "MSE": "mse"})
    files = {str(path.relative_to(made)): path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()}
    shutil.rmtree(folder)
    return files


def case(rng, folder):
    files = dict(_base())
    kinds = (_bytes, _record, _recipe, _archive)
    kind = kinds[rng.integers(len(kinds))]
    path = kind(files, rng, folder)
    try:
        if kind is _recipe:
            load_recipe(path)
        results = read_results(folder / "own" if path.is_relative_to(folder / "own") else path)
        list(results.final())
        writer.gather(folder / "own" if path.is_relative_to(folder / "own") else path, lists=False)
        if path.is_relative_to(folder / "own"):
            pack(folder / "own", folder / "again.tar.xz")
            read_results(folder / "again.tar.xz")
    except ValueError as error:
        said = str(error)
        if str(folder) not in said:
            raise AssertionError(f"{kind.__name__}: no file in {said[:500]!r}") from error
        return "refused"
    return "read"


def _write(files, folder):
    for name, content in files.items():
        (folder / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "own" / name).write_bytes(content)


def _bytes(files, rng, folder):
    """A file with bits flipped, cut or filled with noise."""
    name = sorted(files)[rng.integers(len(files))]
    files[name] = _damaged(files[name], rng)
    _write(files, folder)
    return folder / "own" / name


def _damaged(content, rng):
    made = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        return bytes(made[: rng.integers(len(made))])
    if kind == 1:
        at, size = int(rng.integers(len(made))), int(rng.integers(1, 200))
        made[at : at + size] = rng.bytes(size)
    for _ in range(int(rng.integers(1, 6))):
        made[rng.integers(len(made))] ^= 1 << int(rng.integers(8))
    return bytes(made)


def _record(files, rng, folder):
    """A result one or two of whose fields are something else."""
    names = [name for name in sorted(files) if name.endswith(".json")]
    name = names[rng.integers(len(names))]
    record = json.loads(files[name])
    for _ in range(rng.integers(1, 3)):
        holder, key = record, None
        while True:
            keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if not isinstance(holder[key], dict | list) or rng.random() < 0.3:
                holder[key] = _WILD[rng.integers(len(_WILD))]
                break
            holder = holder[key]
    files[name] = json.dumps(record).encode()
    _write(files, folder)
    return folder / "own" / name


def _recipe(files, rng, folder):
    """A recipe with a line that is hostile, or a value that is something else."""
    if rng.random() < 0.5:
        lines = files["recipe.yaml"].decode().split("\n")
        lines.insert(int(rng.integers(len(lines))), f"extra: {_TEXTS[rng.integers(len(_TEXTS))]}")
        files["recipe.yaml"] = "\n".join(lines).encode()
    else:
        raw = yaml.safe_load(files["recipe.yaml"])
        key = [*raw][rng.integers(len(raw))]
        wild = (None, 5, -1, 1e300, "", [], {}, [5], {"a": 5}, {"a": {"b": []}}, ["x"] * 50, 10**9)
        raw[key] = wild[rng.integers(len(wild))]
        files["recipe.yaml"] = yaml.safe_dump(raw, sort_keys=False).encode()
    _write(files, folder)
    return folder / "own" / "recipe.yaml"


def _archive(files, rng, folder):
    """A packed file with a hostile member, or damaged as a whole."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=int(rng.integers(3))) as archive:
        for name, content in files.items():
            if rng.random() < 0.05:
                name = ("../x", "/x", "cells/../x", name + "/", "./" + name, "x" * 90)[rng.integers(6)]
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if rng.random() < 0.01:
                entry.type = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)[rng.integers(4)]
                entry.linkname, entry.size = "/etc/passwd", 0
            archive.addfile(entry, io.BytesIO(content) if entry.size else None)
    content = whole.getvalue()
    if rng.random() < 0.3:
        content = _damaged(content, rng)
    content = lzma.compress(content, preset=0)
    if rng.random() < 0.3:
        content = _damaged(content, rng)
    path = folder / "packed.tar.xz"
    path.write_bytes(content)
    return path
