"""Run or resume a search from beginning to end: store the lists, train candidates, make the model."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rankgrad.atomic_files import read_json, write_json
from rankgrad.data import Dataset
from rankgrad.data.tables.errors import warn_identifying
from rankgrad.data.training_labels import check_labels_differ
from rankgrad.errors import bad_value
from rankgrad.lock import LOCK, locked
from rankgrad.models.auto.final_model import AutoResult, FinalSettings, make_model
from rankgrad.models.auto.search import AutoSearch, Entry, SearchSettings
from rankgrad.models.auto.stored_lists import StoredLists, check_folds, content_hash
from rankgrad.parallel.clock import now
from rankgrad.parallel.process_pool import Runner

SEARCH, RESULT = "search.json", "result.json"
_LISTS = "lists"
_SAME = ("metric", "folds", "seed")  # settings that must be equal to resume a search

Told = Callable[[AutoSearch, Entry], Any]


def run_search(
    data: Dataset,
    settings: SearchSettings,
    final: FinalSettings,
    folder: Path,
    runner: Runner,
    *,
    begun: float | None = None,
    told: Told | None = None,
) -> AutoResult:
    """Search for the best ranker, and return it. After Ctrl-C, return the best model so far.

    Args:
        data: labelled lists.
        settings: settings of the search.
        final: form of the returned model.
        folder: folder for the results of the search. If it contains a stopped search of the same lists, that search is
            resumed.
        runner: function that runs tasks.
        begun: time of `rankgrad.parallel.clock` at which the search began; None for now.
        told: function that is called after each training; its arguments are the search and the entry of the candidate.
    """
    begun = now() if begun is None else begun
    check_labels_differ(data)
    warn_identifying(data)
    data = data.without_numbers()
    folds = check_folds(data, settings.folds)
    _check_empty(folder)
    with ExitStack() as stack:
        stack.enter_context(locked(folder, again=True))
        stack.callback(StoredLists.forget)
        spent = _resume(folder, settings, content_hash(data))
        lists = StoredLists.write(data, folder / _LISTS, folds, settings.seed)
        search = AutoSearch(settings, lists, folder, runner, begun - spent)
        try:
            for entry in search.run():
                write_json(folder / SEARCH, _record(settings, lists.key, now() - search.begun), seal=True)
                if told is not None:
                    told(search, entry)
        except KeyboardInterrupt:
            if not any(0 in entry.fits and entry.error is None for entry in search.entries.values()):
                raise
        result = make_model(search, final)
        write_json(folder / RESULT, result.to_json(), seal=True)
        lists.remove()
    return result


def _record(settings: SearchSettings, key: str, spent: float) -> dict[str, Any]:
    return {"settings": asdict(settings), "lists": key, "spent": round(spent, 2)}


def _check_empty(folder: Path) -> None:
    """Check that a folder is new, empty, or the folder of an automatic search."""
    if folder.exists() and not folder.is_dir():
        bad_value("out", "be a folder", f"the file {folder}")
    others = [path.name for path in folder.iterdir() if path.name != LOCK] if folder.is_dir() else []
    if others and SEARCH not in others:
        bad_value(
            "out",
            "be a new folder, or the folder of a search",
            f"the folder {folder}, which contains {min(others)} and no search",
        )


def _resume(folder: Path, settings: SearchSettings, key: str) -> float:
    """Check that the folder is new or contains a search of the same lists; return the seconds used by that search."""
    path = folder / SEARCH
    if not path.is_file():
        write_json(path, _record(settings, key, 0.0), seal=True)
        return 0.0
    then = read_json(path)
    if then.get("lists") != key:
        must = "be a new folder, or the folder of a search with the same lists"
        bad_value("out", must, f"{folder}, the folder of a search with other lists")
    for name in _SAME:
        if (was := then["settings"].get(name)) != (now := getattr(settings, name)):
            must = f"be a new folder, or the folder of a search with {name}={now}"
            bad_value("out", must, f"{folder}, the folder of a search with {name}={was}")
    return float(then["spent"]) if settings.seconds is not None else 0.0
