"""Read a model that LightGBM or XGBoost trained without rankgrad: an object, or a file on disk.

An object is written in the format of its framework, and then read like a file. So both pass the same checks, and every
model that can be read can also be saved and loaded.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rankgrad.data.categories import column_numbers, texts_of
from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_type, bad_value, warn_caller
from rankgrad.trees.frameworks import import_framework
from rankgrad.trees.lightgbm.checks import check_lightgbm
from rankgrad.trees.xgboost.checks import checked_xgboost

_EXACT = 2**24  # float32 has all integers up to this number
_MOST_INTEGERS = 2**16  # largest number of integer categories of a column that are listed
_WIDTH = {"lightgbm": rb"^max_feature_idx=(\d{1,9})$", "xgboost": rb'"num_feature"\s*:\s*"(\d{1,9})"'}


class ForeignModel(NamedTuple):
    """A model that a framework trained without rankgrad."""

    booster: Any  # a copy of the booster
    framework: str  # `lightgbm` or `xgboost`
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
    zero_missing, of_estimator = False, False
    if isinstance(source, str) and source.startswith("tree\n"):
        name, content, framework = "the text", source.encode(), "lightgbm"
    elif isinstance(source, str | os.PathLike):
        name, (content, framework) = str(source), _read(Path(source))
    else:
        booster, framework = booster_of(source)
        name, content = f"the {type(source).__name__}", content_of(booster, framework)
        if framework == "xgboost" and booster is not source:
            zero_missing, of_estimator = _zero_missing(source), True
    found = re.search(_WIDTH[framework], content, flags=re.MULTILINE)
    width = int(found[1]) + (framework == "lightgbm") if found else 1
    content, values = _without_categories(content, name, width) if framework == "xgboost" else (content, None)
    booster = checked_booster(name, content, framework, width)
    if names is not None and len(names) != width:
        bad_value("feature_names", f"be {width} names, one per feature of the model", len(names))
    if framework == "lightgbm":
        _warn_of_large_values(booster)
        known = booster.feature_name() if names is None else [*map(str, names)]
        return ForeignModel(booster, framework, _lightgbm_categories(booster, known, categorical), zero_missing)
    if categorical is not None:
        bad_value("categorical", "be None for a model of XGBoost, which contains the categories", categorical)
    # The estimator predicts with the best number of trees, the booster with all trees.
    best = booster.attr("best_iteration") if of_estimator or booster.attr("scikit_learn") else None
    if best is not None and best.isdecimal() and int(best) + 1 < booster.num_boosted_rounds():
        booster = booster[: int(best) + 1]
    return ForeignModel(booster, framework, values, zero_missing)


def booster_of(source: Any) -> tuple[Any, str]:
    """Return the booster of a booster or a fitted estimator, and the name of its framework.

    Args:
        source: booster or fitted estimator of LightGBM or XGBoost.
    """
    inner = getattr(source, "booster_", None) or source  # an estimator of LightGBM
    if not isinstance(source, type) and hasattr(source, "get_booster"):
        inner = source.get_booster()  # an estimator of XGBoost
    framework = type(inner).__module__.partition(".")[0]
    if framework not in ("lightgbm", "xgboost") or type(inner).__name__ != "Booster":
        must = "be a booster or a fitted estimator of LightGBM or XGBoost, or the path of a model file"
        bad_type("booster", must, type(source).__name__)
    return inner, framework


def content_of(booster: Any, framework: str) -> bytes:
    """Return the content of the model file of a booster: text of LightGBM, or JSON of XGBoost.

    Args:
        booster: booster.
        framework: name of its framework.
    """
    return booster.model_to_string().encode() if framework == "lightgbm" else bytes(booster.save_raw("json"))


def checked_booster(name: str | os.PathLike[str], content: bytes, framework: str, features: int) -> Any:
    """Check a model file of trees, and read the booster. Without the check, wrong indices could crash the framework.

    Args:
        name: path of the file or name of the object, for messages.
        content: content of the file.
        framework: `"lightgbm"` or `"xgboost"`.
        features: number of features that the model must have.
    """
    package = import_framework(framework)
    try:
        if framework == "lightgbm":
            text = content.decode()
            check_lightgbm(text, features)
            return package.Booster(model_str=text)
        return package.Booster(model_file=bytearray(checked_xgboost(content, features)))
    except Exception as error:  # the frameworks raise different errors
        got = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{name} must be a valid model of {framework}; got the error: {got}") from error


def features_of(booster: Any, framework: str) -> int:
    """Return the number of features of a booster.

    Args:
        booster: booster.
        framework: name of its framework.
    """
    return int(booster.num_feature() if framework == "lightgbm" else booster.num_features())


def names_of(booster: Any, framework: str) -> tuple[str, ...] | None:
    """Return the names of the features of a booster; None if its training data had no names.

    Args:
        booster: booster.
        framework: name of its framework.
    """
    names = booster.feature_name() if framework == "lightgbm" else booster.feature_names
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
    if content.startswith(b"tree\n"):
        return content, "lightgbm"
    if re.match(rb'\s*\{\s*"', content):
        return content, "xgboost"
    must = (
        "be a text file of LightGBM or a JSON file of XGBoost (Booster(model_file=...).save_model('model.json') writes "
    )
    must += "one, also from a UBJ file)"
    bad_value(str(path), must, repr(content[:20]))


def _zero_missing(estimator: Any) -> bool:
    """Return True if an estimator of XGBoost has 0 as the missing value."""
    missing = getattr(estimator, "missing", math.nan)
    if missing is not None and not math.isnan(missing) and missing != 0:
        must = f"be NaN or 0 (replace {missing} in the features by NaN, and give estimator.get_booster())"
        bad_value("missing of the estimator", must, missing)
    return missing == 0


def _without_categories(content: bytes, name: str, features: int) -> tuple[bytes, Categories | None]:
    """Take the categories of a data frame out of a file of XGBoost, and return the new content and the categories."""
    if b'"enc"' not in content:
        return content, None
    try:
        model = json.loads(content)
        booster = model["learner"]["gradient_booster"]
        trees = booster.get("gbtree", booster)["model"]
        columns = [_values_of(column) for column in trees["cats"]["enc"]]
        if len(columns) not in (0, features):
            bad_value("enc", f"have {features} columns", len(columns))
        found = {place: texts_of(values, f"feature {place + 1}") for place, values in enumerate(columns) if values}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"{name} must be a valid model of xgboost; got the error: {error}"[:300]) from error
    if not found:
        return content, None
    trees["cats"] = {name: [] for name in trees["cats"]}
    return json.dumps(model, ensure_ascii=False).encode(), found


def _values_of(column: dict[str, Any]) -> list[Any]:
    """Return the categories of one column in a file of XGBoost: numbers, or texts that are joined to one text."""
    if "offsets" not in column:
        return list(column["values"])
    joined, ends = bytes(byte % 256 for byte in column["values"]), column["offsets"]
    if not joined.isascii():  # XGBoost 3 cuts the texts of a pandas column at a number of characters, not of bytes
        raise ValueError("categories of a data frame with letters outside ASCII, which XGBoost stores incompletely")
    return [joined[start:end].decode() for start, end in pairwise(ends)]


def _lightgbm_categories(booster: Any, names: list[str], categorical: Sequence[Any] | None) -> Categories | None:
    """Return the categories of each categorical column of a booster of LightGBM; None without categorical columns.

    The file contains the categories of each column of a pandas frame, but not which columns these are. Usually they are
    the columns with categorical splits. A column of ordered categories has numerical splits, and one with a single
    value has none. Without a pandas frame, the categories are integers from 0.
    """
    values, infos = booster.pandas_categorical or [], _feature_infos(booster)
    columns = split = [place for place, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    if not values:
        columns = []
        if categorical is not None:
            bad_value("categorical", "be None for a booster without categories of a data frame", categorical)
    elif categorical is not None:
        columns = column_numbers(categorical, names, len(names))
    if len(columns) != len(values) or not all(map(_fits, (infos[column] for column in columns), values)):
        must = f"name the {len(values)} columns that were categorical in the data frame of the training"
        must += (
            " (the model does not tell which they are: TreeRanker.from_booster takes their names, and saves a folder)"
        )
        bad_value("categorical", must, [names[column] for column in columns])
    found = {column: texts_of(each, names[column]) for column, each in zip(columns, values, strict=True)}
    for column in split:
        most = max(map(int, infos[column].split(":")))
        if column not in found and most < _MOST_INTEGERS:
            found[column] = tuple(map(str, range(most + 1)))
    return found or None


def _fits(info: str, values: Sequence[Any]) -> bool:
    """Return True if a feature with this information can be a column with these categories."""
    codes = [] if info == "none" else [float(code) for code in info.strip("[]").split(":")]
    return all(-1 <= code < len(values) for code in codes)


def _feature_infos(booster: Any) -> list[str]:
    """Return LightGBM's text about the values of each feature: `[low:high]`, the categories `0:3:1`, or `none`."""
    text = booster.model_to_string(num_iteration=1)
    return str(text.partition("\nfeature_infos=")[2].partition("\n")[0]).split(" ")


def _warn_of_large_values(booster: Any) -> None:
    """Warn if a feature of a LightGBM model has values that are different in float64, but may be equal in float32."""
    used = booster.feature_importance("split") > 0
    for name, info, count in zip(booster.feature_name(), _feature_infos(booster), used, strict=True):
        if count and info.startswith("["):
            largest = max(abs(float(end)) for end in info.strip("[]").split(":"))
            if _EXACT < largest < math.inf:
                warn_caller(
                    f"feature {name!r} has values up to {largest:.3g}: rankgrad rounds features to float32, so scores "
                    "can differ from LightGBM's (train on a smaller number, such as days before the newest date)"
                )
