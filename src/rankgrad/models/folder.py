"""Read and write the files that every saved model has: `config.json` and `metrics.json`."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from rankgrad.atomic_files import read_json, write_json
from rankgrad.data.categories import from_json, to_json
from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_value
from rankgrad.lock import is_locked

FORMAT, VERSION = "rankgrad model", 1
CONFIG, METRICS = "config.json", "metrics.json"
CALIBRATION = "calibration.json"  # exists only if the model is calibrated; see `rankgrad.models.calibration`
_RUN_FILES = ("last.safetensors", "run.json")  # checkpoint of a training run, and settings of `rankgrad train`


def check_no_run(folder: str | PathLike[str]) -> None:
    """Raise an error if a model would replace some files of a training run. The run itself has locked the folder.

    Args:
        folder: folder in which a model will be saved.
    """
    folder = Path(folder)
    found = [name for name in _RUN_FILES if (folder / name).is_file()]
    if found and not is_locked(folder):
        bad_value(
            str(folder), "be a folder without a training run (choose another folder)", f"a folder with {found[0]}"
        )


def write_config(
    folder: str | PathLike[str],
    kind: str | None,
    about: dict[str, Any],
    feature_names: Sequence[str] | None = None,
    categories: Categories | None = None,
) -> None:
    """Write the `config.json` of a model.

    Args:
        folder: folder of the model.
        kind: name by which the registry finds the kind that loads the model; None for a neural ranker, because version
            0.1 wrote no kind.
        about: other entries of the file, as JSON values.
        feature_names: names of the features, which `feature_names_of` reads; None if they are unknown.
        categories: categories of the categorical features, which `categories_of` reads; None if there are no such
            features.
    """
    named = {} if kind is None else {"kind": kind}
    known: dict[str, Any] = {} if feature_names is None else {"feature_names": [*feature_names]}
    known |= {"categories": to_json(categories)} if categories else {}
    write_json(Path(folder) / CONFIG, {"format": FORMAT, "version": VERSION, **named, **about, **known}, seal=True)


def feature_names_of(folder: str | PathLike[str], features: int) -> tuple[str, ...] | None:
    """Return the names of the features of a saved model, or None if they are unknown.

    Args:
        folder: folder of the model.
        features: number of features of the model.
    """
    names = read_config(folder).get("feature_names")
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != features or not all(isinstance(name, str) for name in names):
        got = f"{len(names)} entries" if isinstance(names, list) else repr(names)[:80]
        bad_value(str(Path(folder) / CONFIG), f"contain {features} names (text) as `feature_names`", got)
    return tuple(names)


def categories_of(folder: str | PathLike[str], features: int) -> Categories | None:
    """Return the categories of a saved model, by column of the feature; None if there are no categorical features.

    Args:
        folder: folder of the model.
        features: number of features of the model.
    """
    return from_json(read_config(folder).get("categories"), features, str(Path(folder) / CONFIG))


def read_config(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the content of the `config.json` of a model; check that this release can read this version of the file.

    Args:
        folder: folder of the model.
    """
    path = Path(folder) / CONFIG
    if Path(folder).is_file():
        bad_value(
            str(folder), "be the folder of a model (rankgrad.models.load(FILE).save(FOLDER) writes one)", "a file"
        )
    if not path.is_file():
        if (Path(folder) / _RUN_FILES[1]).is_file():
            command = f"`rankgrad train --resume --out {folder}`"
            bad_value(str(folder), f"be the folder of a finished training (to finish it: {command})", f"no {CONFIG}")
        bad_value(str(folder), f"be the folder of a model, with {CONFIG}", "no such file")
    config = read_json(path)
    if config.get("format") != FORMAT:
        bad_value(str(path), f"have the format {FORMAT!r}", config.get("format"))
    version = config.get("version")
    if not isinstance(version, int) or version not in range(1, VERSION + 1):
        bad_value(str(path), f"have a version from 1 to {VERSION} (a newer rankgrad may have written it)", version)
    if not isinstance(config.get("settings", {}), dict) or not isinstance(config.get("run", ""), str):
        bad_value(str(path), "have a mapping as `settings` and text as `run`", "values of other types")
    return config


def write_metrics(folder: str | PathLike[str], metrics: dict[str, Any]) -> None:
    """Write the metrics of a model to `metrics.json`, and remove the calibration of an earlier model in the folder.

    Args:
        folder: folder of the model.
        metrics: metrics, as JSON values. A metric that is NaN is not written.
    """
    (Path(folder) / CALIBRATION).unlink(missing_ok=True)  # the weights may be new
    known = {
        part: {name: value for name, value in values.items() if value == value} if isinstance(values, dict) else values
        for part, values in metrics.items()
    }
    write_json(Path(folder) / METRICS, known, seal=True)


def read_metrics(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the metrics in the `metrics.json` of a model; an empty dictionary if there is no such file.

    Args:
        folder: folder of the model.
    """
    path = Path(folder) / METRICS
    known = read_json(path) if path.is_file() else {}
    for part in ("validation", "test", "loss"):
        values = known.get(part, {})
        if not isinstance(values, dict) or not all(isinstance(each, int | float) for each in values.values()):
            bad_value(str(path), f"contain a mapping from metric to number as {part!r}", values)
    for unit in ("epoch", "trees"):
        count = known.get(unit, 0)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            bad_value(str(path), f"contain an integer of at least 0 as {unit!r}", repr(count)[:40])
    return known
