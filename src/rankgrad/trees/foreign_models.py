"""Make a `TreeModel` of a model that LightGBM or XGBoost trained without rankgrad: an object, or a file on disk."""

import json
import os
import re
from pathlib import Path
from typing import Any

from rankgrad.data.dataset import Categories
from rankgrad.errors import bad_type, bad_value
from rankgrad.trees.frameworks import import_framework
from rankgrad.trees.lightgbm_checks import check_lightgbm
from rankgrad.trees.xgboost_checks import checked_xgboost

_NO_NAME = re.compile(r"Column_\d+|f\d+")  # names that the frameworks make if the training data has no names


def booster_of(source: Any) -> tuple[Any, str]:
    """Return the booster of an object or of a model file, and the name of its framework.

    Args:
        source: booster or fitted estimator of LightGBM or XGBoost, or the path of a model file.
    """
    if isinstance(source, str | os.PathLike):
        return read_booster(Path(source))
    inner = getattr(source, "booster_", None) or source  # an estimator of LightGBM
    if not isinstance(source, type) and hasattr(source, "get_booster"):
        inner = source.get_booster()  # an estimator of XGBoost
    framework = type(inner).__module__.partition(".")[0]
    if framework not in ("lightgbm", "xgboost") or type(inner).__name__ != "Booster":
        must = "be a booster or a fitted estimator of LightGBM or XGBoost, or the path of a model file"
        bad_type("booster", must, type(source).__name__)
    return inner, framework


def read_booster(path: Path) -> tuple[Any, str]:
    """Check a model file of LightGBM (text) or XGBoost (JSON), and return its booster and the name of its framework.

    Args:
        path: path of the file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a model of LightGBM or XGBoost")
    content = path.read_bytes()
    if content.startswith(b"tree\n"):
        found = re.search(rb"^max_feature_idx=(\d{1,9})$", content, flags=re.MULTILINE)
        return checked_booster(path, content, "lightgbm", int(found[1]) + 1 if found else 1), "lightgbm"
    if re.match(rb'\s*\{\s*"', content):
        found = re.search(rb'"num_feature"\s*:\s*"(\d{1,9})"', content)
        return checked_booster(path, content, "xgboost", int(found[1]) if found else 1), "xgboost"
    must = "be a text file of LightGBM or a JSON file of XGBoost (write it with save_model('model.json'))"
    bad_value(str(path), must, repr(content[:20]))


def checked_booster(path: Path, content: bytes, framework: str, features: int) -> Any:
    """Check a model file of trees, and read the booster. Without the check, wrong indices could crash the framework.

    Args:
        path: path of the file, for messages.
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
        raise ValueError(f"{path} must be a valid model of {framework}; got the error: {got}") from error


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
    if not names or all(_NO_NAME.fullmatch(name) for name in names):
        return None
    return tuple(names)


def categories_of_frame(booster: Any, framework: str) -> Categories | None:
    """Return the categories of the pandas columns on which a booster was trained, by column; None without categories.

    Args:
        booster: booster.
        framework: name of its framework.
    """
    if framework == "xgboost":
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
        if any(learner.get("model", {}).get("cats", {}).values()):
            bad_value("booster", "be trained on numbers (such as codes of categories)", "categories of a data frame")
        return None
    text = booster.model_to_string()
    values = booster.pandas_categorical or []
    if not values:
        return None
    infos = text.partition("\nfeature_infos=")[2].partition("\n")[0].split(" ")
    columns = [place for place, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    if len(columns) != len(values):
        got = f"{len(values)} in the data frame, and {len(columns)} in the trees"
        bad_value("categorical columns of the booster", "be equal in number", got)
    return {column: tuple(map(str, each)) for column, each in zip(columns, values, strict=True)}
