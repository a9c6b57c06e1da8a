"""Remove the files of an earlier run, for `--overwrite`. Files that rankgrad did not write are not removed."""

import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.tree_frameworks import FILES

_TREES = "|".join(map(re.escape, FILES.values()))
# Files of a run, of a trial and of a pretrained loss, by name.
_FILES = re.compile(
    r"(config|metrics|calibration|data|run|search|fidelity|after-\d+)\.json|(last|model|preprocessing|weights)\.safetensors"
    rf"|log\.jsonl|{_TREES}|text\.json|(test|teacher)-run\.txt|teacher-run\.txt\.partial"
)
_MODEL_FILES = re.compile(rf"(config|metrics|calibration)\.json|(model|preprocessing|weights)\.safetensors|{_TREES}")
_NEW = ".new-model"  # folder of a model that replaces another one
_PARTS = re.compile(r"part-\d+")  # folders of the members of a blend
_SEARCH = "search"  # folder of `rankgrad auto`
_ENCODERS = re.compile(r"encoder(\.new|\.old)?")  # folders of a text ranker
_TRIALS = "trials"  # folder of the trials of `rankgrad tune`
_TRIAL = re.compile(r"[0-9a-f]{8}")
_TRACKED = "tensorboard", re.compile(r"events\.out\.tfevents\..+|hparams\.yaml")


def check_overwrite(out: Path) -> None:
    """Check that a folder may be overwritten: it contains no files of a run, or rankgrad wrote the run."""
    if out.is_dir() and next(_files(out), None) is not None and not _is_run(out):
        bad_value("out", "be a new folder, or the folder of a run", f"{out}, which contains files of another program")


def remove_run(out: Path) -> None:
    """Remove the files of a run from a folder. Other files, and folders with other files, are not removed."""
    check_overwrite(out)
    remove_parts(out)
    if _is_search(out / _SEARCH):
        shutil.rmtree(out / _SEARCH)
    for folder in [*_inside(out, _ENCODERS)]:
        if (folder / ".complete").is_file() or (out / "text.json").is_file():  # a text ranker wrote the folder
            shutil.rmtree(folder)
    for path in [*_files(out)]:
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == out:
                break
            with suppress(OSError):  # the folder contains other files
                folder.rmdir()


def replace_model(model: Any, out: Path) -> None:
    """Save a model in a folder, and remove the files of an earlier model; other files, such as `data.json`, stay.

    The model is first saved in a new folder next to the files of the earlier model. Therefore, an interruption does not
    cause a broken model. Ctrl-C has no effect until the files are moved.
    """
    new = out / _NEW
    shutil.rmtree(new, ignore_errors=True)
    model.save(new)
    with _without_interrupts():
        remove_parts(out)
        for path in _plain(out, _MODEL_FILES):
            path.unlink()
        for path in sorted(new.iterdir(), key=lambda path: path.name == "config.json"):  # the configuration is last
            path.rename(out / path.name)
        new.rmdir()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, which replaces the files of a model."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def remove_parts(out: Path) -> None:
    """Remove the folders of the members of a blend. A folder without a model is not removed."""
    from rankgrad.models.folder import CONFIG

    for folder in [*_inside(out, _PARTS)]:
        if (folder / CONFIG).is_file():
            shutil.rmtree(folder)


def _is_search(folder: Path) -> bool:
    from rankgrad.atomic_files import read_json

    with suppress(ValueError, OSError):
        return not folder.is_symlink() and {"settings", "lists", "spent"} <= set(read_json(folder / "search.json"))
    return False


def _files(out: Path) -> Iterator[Path]:
    """Yield the files that `--overwrite` may remove, by name. Symbolic links are not included."""
    trials = [path for path in _inside(out / _TRIALS, _TRIAL) if path.is_dir()]
    for folder in (out, out / _TRIALS, *trials):
        yield from _plain(folder, _FILES)
        yield from _plain(folder / _TRACKED[0], _TRACKED[1])


def _plain(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    return (path for path in _inside(folder, names) if path.is_file())


def _inside(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else ():
        if names.fullmatch(path.name) and not path.is_symlink():
            yield path


def _is_run(out: Path) -> bool:
    """Return True if the folder contains a model, a run, a search or a checkpoint of rankgrad."""
    from rankgrad.atomic_files import read_json, read_tensors
    from rankgrad.models.folder import read_config
    from rankgrad.run.checkpoint import LAST

    def settings(path: Path) -> object:
        return read_json(path)["settings"]

    checks = (
        (read_config, out),
        (settings, out / "run.json"),
        (settings, out / _TRIALS / "search.json"),
        (settings, out / _SEARCH / "search.json"),
        (read_tensors, out / LAST),
    )
    for check, path in checks:
        with suppress(ValueError, KeyError, OSError):
            check(path)
            return True
    return False
