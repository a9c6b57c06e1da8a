"""Damage to caches of data sets that are larger than the ends which every opening compares.

Flipped bits and zeros anywhere, also with the old modification time and after the cache was open; cut and longer files;
files that are swapped or from another cache; edited manifests. A cache is refused in one sentence that names it, or its
content is what it was; a reader that has the source writes the cache again.
"""

import json
import logging
import os
import random
import shutil
import time
from functools import cache
from pathlib import Path

import numpy as np
from damage import home as new_home

from rankgrad.atomic_files import write_json
from rankgrad.data import cache as caches
from rankgrad.data import open_cache, read_letor
from rankgrad.data.cache import CacheError

DOCUMENTS, WIDTH = 10_000, 110  # 4.4 MB of features
HOSTILE = (None, True, -1, 0, 1e308, 10**30, "", "x", "../features", "\0", [], {}, [[[]]], {"a": 1})


@cache
def prepared():
    """A folder with two caches, their source files, and the content of the first cache."""
    home = new_home()
    logging.getLogger("rankgrad").setLevel(logging.ERROR)
    for name, seed in (("one", 0), ("other", 1)):
        values = np.random.default_rng(seed).integers(1, 9, (DOCUMENTS, WIDTH)).tolist()
        lines = (
            f"{row % 3} qid:q{row // 9} " + " ".join(f"{j + 1}:{x}" for j, x in enumerate(line)) + f" # {name}{row}\n"
            for row, line in enumerate(values)
        )
        (home / f"{name}.txt").write_text("".join(lines))
        read_letor(home / f"{name}.txt", cache=home / name)
    return home, content(read_letor(home / "one.txt"))


def content(data):
    """The arrays of a data set as bytes."""
    found = {name: getattr(data, name) for name in caches.ARRAYS}
    return {name: None if array is None else (array.shape, array.tobytes()) for name, array in found.items()}


def flip(chance, path, home):
    """Change bytes at one place; sometimes nothing but the content changes."""
    before, data = path.stat(), bytearray(path.read_bytes())
    at = chance.randrange(len(data)) if chance.random() < 0.5 else len(data) // 2
    if chance.random() < 0.5:
        data[at] ^= 1 << chance.randrange(8)
    else:
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    path.write_bytes(data)
    if chance.random() < 0.7:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def resize(chance, path, home):
    """Cut a file, or make it longer."""
    size = path.stat().st_size
    os.truncate(path, chance.choice([0, size // 2, size - 1, size + 1, size + 4 * WIDTH, chance.randrange(size)]))


def swap(chance, path, home):
    """Put another file in the place of this one: of this cache, or of another one."""
    others = [home / "other" / path.name, *filter(Path.is_file, sorted(path.parent.iterdir()))]
    shutil.copyfile(chance.choice([other for other in others if other != path]), path)


def remove(chance, path, home):
    """Remove a file, or put a folder or a link in its place."""
    path.unlink()
    if chance.random() < 0.3:
        path.mkdir()
    elif chance.random() < 0.5:
        path.symlink_to(home / "other" / path.name)


def edit(chance, path, home):
    """Change a value of the manifest; sometimes without the hash, as who edits by hand."""
    path = path.with_name(caches.MANIFEST)
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError):  # damaged already
        return
    if chance.random() < 0.5:
        manifest.pop("sha256", None)
    part = manifest
    while True:
        key = chance.choice([*part]) if isinstance(part, dict) else chance.randrange(len(part))
        inner = part[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.2:
            break
        part = inner
    if chance.random() < 0.3:
        del part[key]
    else:
        part[key] = chance.choice([*HOSTILE, str(inner), home.name])
    path.write_text(json.dumps(manifest))


DAMAGE = (flip, flip, flip, resize, swap, remove, edit)


def record_state(folder):
    """Write the manifest that a conversion writes which takes longer than a moment."""
    time.sleep(1.2 * caches._SETTLED / 1e9)
    manifest = json.loads((folder / caches.MANIFEST).read_text())
    del manifest["sha256"]
    manifest["arrays"]["features"]["state"] = caches._state(folder / "features.npy")
    write_json(folder / caches.MANIFEST, manifest, seal=True)


def check(error, place):
    """An error is one sentence, which names the cache."""
    assert str(error).startswith(f"{place}: "), error
    assert "\n" not in str(error), error


def case(rng: np.random.Generator, folder: Path) -> str:
    """Damage a copy of a cache in a few ways, and open it."""
    chance, (home, whole) = random.Random(int(rng.integers(2**62))), prepared()
    place = folder / "cache"
    shutil.copytree(home / "one", place)
    if chance.random() < 0.3:
        record_state(place)
    if chance.random() < 0.3:
        open_cache(place)  # what this process remembers must not hide the damage
    files = sorted(path.name for path in place.iterdir())
    done = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        name = chance.choice([*files, "features.npy"])
        if (place / name).is_file() and (place / name).stat().st_size and not (place / name).is_symlink():
            done.append((chance.choice(DAMAGE), name))
            done[-1][0](chance, place / name, home)
    said = [(how.__name__, name) for how, name in done]
    if chance.random() < 0.1:
        try:
            assert content(read_letor(home / "one.txt", cache=place)) == whole, said
            assert content(open_cache(place, verify=True)) == whole, said
        except CacheError as error:  # something that is not a cache is in the way
            check(error, place)
            return "refused to replace"
        return "written again"
    try:
        found = content(open_cache(place, verify=chance.random() < 0.2))
    except CacheError as error:
        check(error, place)
        return "refused"
    # A manifest that was edited by hand may leave out an array that a cache may lack, but no other one.
    lacks = {name for name, array in found.items() if array is None} if "edit" in dict(said) else set()
    for name, array in found.items():
        assert array == whole[name] or name in lacks - set(caches.ARRAYS[:4]), (name, said)
    return "equal"
