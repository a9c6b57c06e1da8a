"""Commands that are killed at random moments and started again: they end as if nothing had happened, and leave nothing.

`train` and `tune` resume; `convert` begins again. An attempt takes some seconds: most of them start Python.
"""

import json
import signal
import time
from functools import cache

import torch
from damage import home as new_home
from programs import finished, program

from rankgrad.atomic_files import read_tensors
from rankgrad.data import open_cache, read_letor

DATA = "synthetic:lists=40,features=10"
TRAIN = (
    "--data",
    DATA,
    "--model",
    "mlp:widths=8,dropout=0.2",
    "--loss",
    "softmax",
    "--device",
    "cpu",
    "--save-steps",
    2,
)
TRAIN = (*TRAIN, "--batch-size", 4, "--epochs", 40, "--patience", "none")
TUNE = ("--data", DATA, "--model", "linear", "--loss", "softmax", "--budget", 3, "--epochs", 30, "--jobs", 1)
KINDS = {"train": ("train", *TRAIN), "tune": ("tune", *TUNE)}


@cache
def whole(kind):
    """What a command comes to that nobody kills."""
    home = new_home()
    _finished(*KINDS[kind], "--out", home / "out")
    return home / "out"


def case(rng, folder):
    kind = str(rng.choice(["train", "train", "tune", "convert"]))
    return _converted(rng, folder) if kind == "convert" else _trained(rng, folder, kind)


def _trained(rng, folder, kind):
    out = folder / "out"
    resume = ("--resume",) if kind == "train" else ()
    for _ in range(int(rng.integers(1, 3))):
        again = resume if (out / "last.safetensors").exists() else ()
        if again == () and kind == "train" and (out / "model.safetensors").exists():
            again = resume  # killed before its first checkpoint
        going = program(*KINDS[kind], "--out", out, *again)
        begun = time.monotonic()
        while going.poll() is None and not out.exists() and time.monotonic() < begun + 30:
            time.sleep(0.005)
        time.sleep(float(rng.random()) * 2)
        going.send_signal(signal.SIGKILL)
        going.communicate(timeout=60)
    again = resume if any((out / name).exists() for name in ("last.safetensors", "model.safetensors")) else ()
    _finished(*KINDS[kind], "--out", out, *again)
    right = whole(kind)
    assert _files(out) == _files(right), "files differ"
    for path in sorted(right.rglob("*.safetensors")):
        ours, theirs = (read_tensors(each / path.relative_to(right))[0] for each in (out, right))
        assert ours.keys() == theirs.keys(), path
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items()), f"other weights in {path.name}"
    assert _metrics(out) == _metrics(right), "other metrics"
    return kind


def _converted(rng, folder):
    source = folder / "train.txt"
    source.write_text("".join(f"{row % 3} qid:{row // 10} 1:{row} 2:{row / 7}\n" for row in range(60_000)))
    for _ in range(2):
        going = program("convert", source, folder / "cache")
        begun = time.monotonic()
        while going.poll() is None and len(list(folder.iterdir())) == 1 and time.monotonic() < begun + 30:
            time.sleep(0.001)
        time.sleep(float(rng.random()) * 0.3)
        going.kill()
        going.communicate(timeout=60)
        if (folder / "cache").exists():
            open_cache(folder / "cache", verify=True)
    _finished("convert", source, folder / "cache")
    assert {path.name for path in folder.iterdir()} == {"train.txt", "cache"}, "leftovers"
    ours, theirs = open_cache(folder / "cache", verify=True), read_letor(source)
    assert all((getattr(ours, name) == getattr(theirs, name)).all() for name in ("features", "labels", "offsets"))
    return "convert"


def _finished(*arguments):
    done = finished(*arguments)
    assert done.returncode == 0, done.stderr


def _files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _metrics(folder):
    found = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in found.items() if name != "sha256"}
