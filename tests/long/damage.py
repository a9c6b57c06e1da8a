"""Damage to files and to values of JSON, and what else several attacks share."""

import atexit
import os
import shutil
import tempfile
import warnings
from pathlib import Path

from typer.testing import CliRunner

from rankgrad.training import NotFinite

HOSTILE = (
    None, True, -1, 0, 3, 0.5, 1e308, -1e308, 10**18, 10**30, "", "x", "../../outside/made", "/dev/zero", "\0",
    "é" * 500, [], {}, [1, "a"], {"a": {"b": []}}, [[[[[]]]]],
)  # fmt: skip


def home():
    """A folder for what all attempts of a kind need."""
    folder = Path(tempfile.mkdtemp(prefix="rankgrad-attack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def flip(rng, file, *_):
    content = bytearray(file.read_bytes())
    for _ in range(int(rng.integers(1, 4)) if content else 0):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    file.write_bytes(content)


def cut(rng, file, *_):
    content = file.read_bytes()
    file.write_bytes(content[: int(rng.integers(len(content)))] if content else b"")


def grow(rng, file, *_):
    file.write_bytes(file.read_bytes() + rng.bytes(int(rng.integers(1, 100))))


def remove(rng, file, *_):
    file.unlink(missing_ok=True)


def nest(rng, file, *_):
    file.write_text(str(rng.choice(["[", '{"a":', "9"])) * 100_000)


def swap(rng, file, others, *_):
    """Put the content of another file in its place."""
    others = sorted(path for path in others if path.is_file())
    file.write_bytes(others[int(rng.integers(len(others)))].read_bytes())


def link(rng, file, _, targets):
    """Put a symbolic link in its place."""
    file.unlink()
    file.symlink_to(rng.choice(targets))


HARMS = {
    "flipped": flip, "cut": cut, "longer": grow, "removed": remove, "nested": nest, "swapped": swap, "linked": link,
}  # fmt: skip


def edited(rng, value):
    """The value with something hostile somewhere in it."""
    if rng.random() < 0.1 or not isinstance(value, dict | list) or not value:
        return HOSTILE[int(rng.integers(len(HOSTILE)))]
    if isinstance(value, list):
        place = int(rng.integers(len(value)))
        return [*value[:place], edited(rng, value[place]), *value[place + 1 :]]
    key = str(rng.choice(sorted(value)))
    if rng.random() < 0.1:
        return {name: inner for name, inner in value.items() if name != key}
    return {**value, key: edited(rng, value[key])}


def refused(error, folder):
    """Check that an error is one sentence that names the folder."""
    said = str(error)
    assert str(folder) in said, f"names no file: {type(error).__name__}: {said}"
    assert "\n" not in said, f"not one sentence: {said}"
    return "refused"


def command(arguments):
    """Run a command in this process; its exit with 1 is that of a training that is not finite."""
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
