"""Damage to the cache of compiled code: whatever lies there, a kernel gives its value and the next process loads it.

An attempt damages a private copy of a warm folder, then loads and calls a small function of three signatures, as a new
process would. One attempt in 2000 is such a process, with a loss.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numba
import numpy as np
from damage import cut, flip, grow, remove

from rankgrad.kernels import cpu
from rankgrad.kernels.cache_folder import CacheFolder
from rankgrad.kernels.numba_cache import keep

PROGRAM = """
import torch, rankgrad as rg
value = rg.losses.softmax(torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
assert abs(value.item() - 0.3132617) < 1e-6, value
"""
ARGUMENTS = (3, 3.5, 2.0 + 1.0j)


def weigh(x):
    return 3 * x + 1


@cache
def warm() -> dict[str, bytes]:
    """The files of a warm folder."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "kernels"
        call(path)
        return {file.name: file.read_bytes() for file in path.iterdir()}


@cache
def kept() -> dict[str, bytes]:
    """The files of the loss of `PROGRAM` in the user's own folder."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
    return {file.name: file.read_bytes() for file in cpu._FOLDER.path.glob("_listwise*")}


def call(path: Path) -> int:
    """Call the function as a new process would; how many signatures were loaded."""
    compiled = keep(numba.njit(weigh), CacheFolder(path))
    for argument in ARGUMENTS:
        value = compiled(argument)
        assert type(value) is type(argument), (value, argument)
        assert value == 3 * argument + 1, (value, argument)
    return sum(compiled.stats.cache_hits.values())


def case(rng: np.random.Generator, folder: Path) -> str:
    path = folder / "kernels"
    path.mkdir(mode=0o700)
    whole = rng.random() < 1 / 2000
    for name, content in (kept() if whole else warm()).items():
        (path / name).write_bytes(content)
    kind = str(rng.choice([*KINDS]))
    files = sorted(path.iterdir())
    for _ in range(int(rng.integers(1, 4))):
        KINDS[kind](rng, files[rng.integers(len(files))], path)
    if whole:
        return process(folder, path)
    with contextlib.redirect_stderr(io.StringIO()):
        first, second = call(path), call(path)
    if kind in REPAIRED:
        assert first < len(ARGUMENTS) or kind == "flip", "a damaged entry was loaded"
        assert second == len(ARGUMENTS), "a damaged entry was not replaced"
    if kind in CLOSED:
        assert first == second == 0, "a folder that is not private was used"
    return kind


def process(folder: Path, path: Path) -> str:
    """A loss in a process whose folder of kernels is the damaged one."""
    root = folder / "root"
    root.mkdir(mode=0o700)
    path.rename(root / cpu._FOLDER.path.name)
    settings = {**os.environ, "RANKGRAD_CACHE": str(root)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "process"


def garbage(rng, file, path):
    file.write_bytes(rng.bytes(int(rng.integers(0, 5000))))


def swap(rng, file, path):
    others = [one for one in sorted(path.iterdir()) if one != file]
    file.write_bytes(others[0].read_bytes() if others else b"")


def link(rng, file, path):
    file.unlink()
    file.symlink_to(rng.choice(["nowhere", "/dev/zero", "/dev/full", file.name, "/etc/passwd"]))


def pipe(rng, file, path):
    file.unlink()
    os.mkfifo(file)


def into_folder(rng, file, path):
    if not file.is_dir():
        file.unlink()
        file.mkdir()


def forbid(rng, file, path):
    file.chmod(int(rng.choice([0o000, 0o200, 0o777])))


def open_to_others(rng, file, path):
    path.chmod(int(rng.choice([0o777, 0o770, 0o1777, 0o722, 0o702, 0o720])))


def closed(rng, file, path):
    path.chmod(int(rng.choice([0o000, 0o500, 0o400])))


def moved_away(rng, file, path):
    if not path.is_symlink():
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")


KINDS = {
    "flip": flip, "cut": cut, "grow": grow, "garbage": garbage, "swap": swap, "delete": remove, "link": link,
    "pipe": pipe, "into folder": into_folder, "forbid": forbid, "open to others": open_to_others, "closed": closed,
    "moved away": moved_away,
}  # fmt: skip
# After which the first call compiles, and the second loads all.
REPAIRED = {"flip", "cut", "grow", "garbage", "swap", "delete", "link", "pipe"}
# After which nothing may be loaded.
CLOSED = {"open to others", "moved away"}
