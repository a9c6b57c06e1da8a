"""Compiled code on disk: it is private to the user, it is checked before it runs, and it never makes a loss fail."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from rankgrad.kernels import cache_folder
from rankgrad.kernels.cache_folder import CacheFolder
from rankgrad.kernels.numba_cache import keep

ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
POSIX = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    monkeypatch.setattr(cache_folder, "_reported", False)


def double(x):
    return 2 * x


def fresh(path):
    """Return a function that is not compiled in this process yet, and stores its code in the folder."""
    return keep(numba.njit(double), CacheFolder(path))


def loaded(compiled):
    """Return True if the function was loaded from the folder."""
    return sum(compiled.stats.cache_hits.values()) > 0


def entry(path):
    (found,) = path.iterdir()
    return found


@pytest.fixture
def warm(tmp_path):
    """Return a folder with the function in it."""
    path = tmp_path / "kernels"
    assert fresh(path)(3) == 6
    return path


def test_what_was_kept_is_loaded(warm, capsys):
    compiled = fresh(warm)
    assert compiled(3) == 6
    assert loaded(compiled)
    assert warm.stat().st_mode & 0o777 == 0o700
    assert entry(warm).stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err == ""


def flipped(content):
    return bytes([*content[:-40], content[-40] ^ 1, *content[-39:]])


DAMAGE = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "a byte short": lambda content: content[:-1],
    "flipped": flipped,
    "garbage": lambda content: b"garbage" * 100,
    "another pickle": lambda content: pickle.dumps({"a": 1}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_compiled_again_and_replaced(warm, damage, capsys):
    whole = entry(warm).read_bytes()
    entry(warm).write_bytes(damage(whole))
    compiled = fresh(warm)
    assert compiled(3) == 6
    assert not loaded(compiled)
    again = fresh(warm)
    assert again(3) == 6
    assert loaded(again)
    assert capsys.readouterr().err == ""


def test_an_entry_under_the_name_of_another_is_not_used(warm):
    assert fresh(warm)(3.0) == 6.0  # another signature, so another entry
    first, second = warm.iterdir()
    first.write_bytes(second.read_bytes())
    for value in (3, 3.0):
        assert type(fresh(warm)(value)) is type(value)


def test_a_valid_entry_that_numba_cannot_load_is_compiled_again(warm):
    CacheFolder(warm).write(entry(warm).name, pickle.dumps("no compiled function"))
    assert fresh(warm)(3) == 6
    again = fresh(warm)
    assert again(3) == 6
    assert loaded(again)


@POSIX
@pytest.mark.parametrize("kind", ["dangling link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(warm, kind):
    place = entry(warm)
    place.unlink()
    {"dangling link": lambda p: p.symlink_to("nowhere"), "pipe": os.mkfifo, "folder": Path.mkdir}[kind](place)
    assert fresh(warm)(3) == 6


def refuses(path, reason, capsys):
    """Check that the function runs, nothing is stored, and one message gives the reason, once."""
    before = sorted(path.iterdir()) if path.is_dir() else None
    for value in (3, 3.0):
        compiled = fresh(path)
        assert compiled(value) == 6
        assert not loaded(compiled)
    assert (sorted(path.iterdir()) if path.is_dir() else None) == before
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("rankgrad: compiled code cannot be stored, so every process compiles it again: ")
    assert reason in message


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used(warm, mode, capsys):
    warm.chmod(mode)
    refuses(warm, f"other users can write to {warm}", capsys)


@ROOT
def test_a_folder_of_another_user_is_not_used(warm, capsys):
    os.chown(warm, 65534, 65534)
    refuses(warm, f"{warm} belongs to another user", capsys)


@POSIX
def test_a_linked_folder_is_not_used(warm, tmp_path, capsys):
    link = tmp_path / "link"
    link.symlink_to(warm)
    refuses(link, str(link), capsys)


@POSIX
def test_a_full_disk_stops_nothing(tmp_path, monkeypatch, capsys):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    path = tmp_path / "kernels"
    path.mkdir(mode=0o700)
    refuses(path, "No space left on device", capsys)


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    refuses(tmp_path / "file" / "kernels", "file", capsys)


def test_without_a_home_nothing_is_kept(monkeypatch, capsys):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RANKGRAD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    folder = CacheFolder.of("kernels", b"source")
    assert folder.path is None
    assert keep(numba.njit(double), folder)(3) == 6
    assert "Could not determine home directory" in capsys.readouterr().err


def test_where_the_folder_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RANKGRAD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert CacheFolder.of("kernels").path.parent == tmp_path / "home" / ".cache" / "rankgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert CacheFolder.of("kernels").path.parent == tmp_path / "caches" / "rankgrad"
    monkeypatch.setenv("RANKGRAD_CACHE", str(tmp_path / "chosen"))
    assert CacheFolder.of("kernels").path.parent == tmp_path / "chosen"
    assert CacheFolder.of("kernels", b"a", b"b").path != CacheFolder.of("kernels", b"ab").path


def test_all_that_is_kept_is_kept_so():
    """No part of the package uses Numba's built-in cache, or the temporary folder, for compiled code."""
    package = Path(cache_folder.__file__).parent.parent
    for path in package.rglob("*.py"):
        assert "cache=True" not in path.read_text(encoding="utf-8"), path
    from rankgrad.data.letor import parser
    from rankgrad.kernels.cpu import listwise

    for compiled in (parser.parse_lines, parser.count_lines, listwise._listwise):
        assert type(compiled._cache).__name__ == "_FolderCache"


PROGRAM = """
import os, resource, signal, sys, torch, rankgrad as rg
{before}
print(rg.losses.softmax(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 0.0]])).item())
"""
FULL = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
HOMELESS = "import pwd; os.environ.pop('HOME', None); pwd.getpwuid = {}.__getitem__"


def softmax_of_a_program(before="", **environment):
    """Check the loss of one list in a new process, and return its stderr."""
    program = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1.4076, abs=1e-4)
    return done.stderr


@pytest.mark.long
def test_a_folder_that_cannot_be_made_is_not_sought_elsewhere(tmp_path):
    """Others could guess the name of a folder in the temporary directory, and put code there."""
    said = softmax_of_a_program(RANKGRAD_CACHE="/dev/null/cache", TMPDIR=str(tmp_path))
    assert "compiled code cannot be stored" in said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.long
@pytest.mark.parametrize("before", [FULL, HOMELESS], ids=["full disk", "no home"])
def test_a_loss_works_where_nothing_can_be_kept(before, tmp_path):
    told = {"RANKGRAD_CACHE": str(tmp_path)} if before == FULL else {"RANKGRAD_CACHE": "", "XDG_CACHE_HOME": ""}
    assert softmax_of_a_program(before, **told).count("compiled code cannot be stored") == 1


@pytest.mark.long
def test_a_loss_works_beside_damaged_files(tmp_path):
    softmax_of_a_program(RANKGRAD_CACHE=str(tmp_path))
    for damage in (lambda content: content[: len(content) // 2], flipped):
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        softmax_of_a_program(RANKGRAD_CACHE=str(tmp_path))
