"""Read a model that LightGBM or XGBoost trained without rankgrad: an object, or a file on disk.

An object is written in the format of its framework, and then read like a file. So both pass the same checks, and every
model that can be read can also be saved and loaded.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_type, bad_value, first_line
from rankgrad.tree_frameworks import FRAMEWORKS
from rankgrad.trees.frameworks import framework_named, import_framework


class ForeignModel(NamedTuple):
    """A model that a framework trained without rankgrad."""

    booster: Any  # a copy of the booster
    framework: str  # name of the framework
    categories: Categories | None  # of the data frame of the training
    zero_missing: bool  # True if 0 was a missing value in the training


def read_foreign(
    source: Any, names: Sequence[str] | None = None, categorical: Sequence[Any] | None = None
) -> ForeignModel:
    """Check an object or a model file of LightGBM or XGBoost, and return its model.

    Args:
        source: booster or fitted estimator of LightGBM or XGBoost, or the path of a model file.
        names: names of the features; None for the names in the model.
        categorical: names or positions of the columns that were categorical in the data frame of the training, for a
            booster of LightGBM. With None, they are found in the model.
    """
    if isinstance(source, str) and (framework := _framework_of(source.encode(errors="replace"), as_text=True)):
        name, content = "the text", source.encode()
    elif isinstance(source, str | os.PathLike):
        name, (content, framework) = str(source), _read(Path(source))
    else:
        booster, framework = booster_of(source)
        name, content = f"the {type(source).__name__}", framework_named(framework).content(booster)
    return framework_named(framework).read_foreign(source, name, content, names, categorical)


def booster_of(source: Any) -> tuple[Any, str]:
    """Return the booster of a booster or a fitted estimator, and the name of its framework.

    Args:
        source: booster or fitted estimator of LightGBM or XGBoost.
    """
    for name in FRAMEWORKS:
        if (booster := framework_named(name).booster_of(source)) is not None:
            return booster, name
    must = "be a booster or a fitted estimator of LightGBM or XGBoost, or the path of a model file"
    bad_type("booster", must, type(source).__name__)


def checked_booster(
    name: str | os.PathLike[str], content: bytes, framework: str, features: int, names: Sequence[str] | None = None
) -> Any:
    """Check a model file of trees, and read the booster. Without the check, wrong indices could crash the framework.

    Args:
        name: path of the file or name of the object, for messages.
        content: content of the file.
        framework: name of its framework.
        features: number of features that the model must have.
        names: names that a user gives to the features, or None.
    """
    described = framework_named(framework)
    import_framework(framework)
    try:
        booster = described.load(described.check(content, features))
    except Exception as error:  # the frameworks raise different errors
        bad_value(str(name), f"be a valid model of {framework}", f"the error: {first_line(error)}")
    if names is not None and len(names) != features:
        bad_value("feature_names", f"be {features} names, one per feature of the model", len(names))
    return booster


def names_of(booster: Any, framework: str) -> tuple[str, ...] | None:
    """Return the names of the features of a booster; None if its training data had no names.

    Args:
        booster: booster.
        framework: name of its framework.
    """
    names = framework_named(framework).feature_names(booster)
    if not names or names == [f"Column_{place}" for place in range(len(names))]:  # LightGBM's names for an array
        return None
    return tuple(names)


def _read(path: Path) -> tuple[bytes, str]:
    """Return the content of a model file, and the name of its framework."""
    if path.is_dir():
        bad_value(str(path), "be a model file of LightGBM or XGBoost (TreeRanker.load reads a folder)", "a folder")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a model of LightGBM or XGBoost")
    content = path.read_bytes()
    if framework := _framework_of(content):
        return content, framework
    must = (
        "be a text file of LightGBM or a JSON file of XGBoost (Booster(model_file=...).save_model('model.json') writes "
    )
    must += "one, also from a UBJ file)"
    bad_value(str(path), must, repr(content[:20]))


def _framework_of(content: bytes, as_text: bool = False) -> str | None:
    """Return the framework of the content of a model file; with `as_text`, only one that accepts it as a text."""
    described = map(framework_named, FRAMEWORKS)
    found = (each.name for each in described if each.from_text >= as_text and re.match(each.signature, content))
    return next(found, None)
