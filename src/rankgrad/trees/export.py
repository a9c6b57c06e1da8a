"""Export boosted trees as one file: ONNX, the format of the framework, or a format of a search engine."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value
from rankgrad.models.protocol import Exported
from rankgrad.training.export import (
    Draw,
    Run,
    chosen_format,
    engine_names,
    need_packages,
    run_onnx,
    write_checked,
    write_for_engine,
)
from rankgrad.tree_frameworks import FILES
from rankgrad.trees import engine_files
from rankgrad.trees.engine_scores import engine_scores
from rankgrad.trees.frameworks import framework_named
from rankgrad.trees.tree_arrays import TINY, Forest, read_splits

if TYPE_CHECKING:
    from rankgrad.trees.model import TreeModel

_LARGE = np.float32(3e38)  # largest number in the check of a file
_OPSETS, _IR = {"": 17, "ai.onnx.ml": 3}, 8


def export(model: "TreeModel", path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
    """Write trees to one file, after a check that the scores of the file agree with `TreeModel.score`.

    The check uses inputs of several shapes.

    An ONNX file has two inputs: `features (lists, n, f)` (float32, raw, NaN for a missing value) and `mask (lists, n)`
    (boolean, True for a document). The output is `scores (lists, n)`; padding has the score 0. If the
    model is calibrated, an ONNX file also has the output `calibrated (lists, n)`; the other formats have only scores.

    Args:
        model: model to export.
        path: path of the file, which is written atomically.
        format: `"onnx"`, the name of the model's framework, or a search engine: `"elasticsearch"`, `"ranklib"`,
            `"solr"` or `"vespa"`. With None, the extension of the path, `.onnx`, `.txt` or `.json`, determines the
            format.
    """
    path = Path(path)
    known = {"onnx": ".onnx", model.framework: Path(FILES[model.framework]).suffix}
    format = chosen_format(path, format, known, engine_files.FORMATS, f" for trees of {model.framework}")
    if format in engine_files.FORMATS:
        return _engine(model, path, format)
    content = model.content()
    if format == "onnx":
        need_packages("onnx", "onnxruntime")
        made, draw = as_onnx(model)
        content = made.SerializeToString()
        engine, run = "onnxruntime", run_onnx(content)
    else:
        if model.categories:
            told = (
                "the file contains the positions of categories in the list categories of config.json, not their values"
            )
            warnings.warn(f"{told}: {model.framework} needs these positions as features", stacklevel=3)
        engine, run = model.framework, _native(model, content)
        counts = {column: len(values) for column, values in (model.categories or {}).items()}
        draw = _draw([np.zeros(0, dtype=np.float32)] * model.features, counts)
    return write_checked(model, path, format, content, engine, run, draw)


def _engine(model: "TreeModel", path: Path, format: str) -> Exported:
    if model.zero_missing:
        bad_value(
            "model",
            f"not treat 0 as a missing value for the format {format}",
            "a model that treats 0 as a missing value",
        )
    names = engine_names(model)
    missing = framework_named(model.framework).stores_missing or model.trained_missing is not False
    forest = read_splits(model.content(), model.framework, format)._replace(missing=missing)
    content = engine_files.write_trees(forest, format, model.framework, names, path.stem)
    scores = engine_scores(content, format, model.framework, names)
    thresholds, nan = _thresholds(forest, model.features), missing or format not in ("ranklib", "solr")

    def draw(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
        rows = _draw(thresholds, {})(shape, rng)
        return rows if nan else np.nan_to_num(rows)

    return write_for_engine(model, path, format, content, scores, draw)


def as_onnx(model: "TreeModel") -> tuple[Any, Draw]:
    """Convert trees to an `onnx.ModelProto`. Also return a function that makes random features for the check.

    Args:
        model: model to convert.
    """
    forest = read_splits(model.content(), model.framework, "onnx", model.features, model.categories)
    if model.zero_missing:
        forest = forest._replace(
            trees=[tree._replace(zero_missing=np.ones_like(tree.zero_missing)) for tree in forest.trees]
        )
    counts = {column: len(values) for column, values in (model.categories or {}).items()}
    return _onnx(forest, model.features), _draw(_thresholds(forest, model.features), counts)


def _native(model: "TreeModel", content: bytes) -> Run:
    """Return a function that reads a new booster from the exported content and computes scores with it."""
    again = replace(model, booster=framework_named(model.framework).load(content))
    return lambda rows, mask: again.score(rows.reshape(-1, model.features)).reshape(mask.shape)


def _onnx(forest: Forest, features: int) -> Any:
    helper, numpy_helper = import_module("onnx").helper, import_module("onnx").numpy_helper
    number, truth = (getattr(import_module("onnx").TensorProto, name) for name in ("FLOAT", "BOOL"))
    constants: dict[str, NDArray[Any]] = {
        "flat": np.array([-1, features], dtype=np.int64),
        "zero": np.zeros((), dtype=np.float32),
    }
    nodes, rows = [helper.make_node("Reshape", ["features", "flat"], ["rows"])], "rows"
    zeros = _zeros(forest, features + len(forest.categorical))
    zeros = None if zeros is None else zeros[:features]
    if zeros is not None:
        constants |= {"tiny": np.asarray(TINY), "zeros": zeros[None]}
        nodes += [
            helper.make_node("Abs", ["rows"], ["size"]),
            helper.make_node("LessOrEqual", ["size", "tiny"], ["small"]),
            helper.make_node("Where", ["small", "zeros", "rows"], ["known"]),
        ]
        rows = "known"
    if forest.categorical:
        found, tables, columns = _category_columns(forest, helper)
        nodes += [*found, helper.make_node("Concat", [rows, *columns], ["split"], axis=1)]
        constants, rows = constants | tables, "split"
    trees = {"n_targets": 1, "aggregate_function": "SUM", "post_transform": "NONE", **_attributes(forest)}
    nodes += [
        helper.make_node("TreeEnsembleRegressor", [rows], ["sums"], domain="ai.onnx.ml", **trees),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Reshape", ["sums", "shape"], ["all"]),
        helper.make_node("Where", ["mask", "all", "zero"], ["scores"]),
    ]
    inputs = [
        helper.make_tensor_value_info("features", number, ["lists", "documents", features]),
        helper.make_tensor_value_info("mask", truth, ["lists", "documents"]),
    ]
    outputs = [helper.make_tensor_value_info("scores", number, ["lists", "documents"])]
    known = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "trees", inputs, outputs, known)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    made = helper.make_model(graph, producer_name="rankgrad", opset_imports=opsets, ir_version=_IR)
    import_module("onnx").checker.check_model(made)
    return made


def _category_columns(forest: Forest, helper: Any) -> tuple[list[Any], dict[str, NDArray[Any]], list[str]]:
    """Return the ONNX nodes for the additional features of categorical splits, the constants and the output names.

    The value of an additional feature is an entry of a table. The table has one entry per category, and a last entry
    for a missing category.
    """
    nodes: list[Any] = []
    constants: dict[str, NDArray[Any]] = {"nothing": np.zeros((), dtype=np.float32)}
    outputs: list[str] = []
    for place, split in enumerate(forest.categorical):
        name = f"category{place}"
        # A code that is not the number of a category (NaN, negative, large, not whole) has the last row: missing.
        last = np.asarray(len(split.right) - 1, dtype=np.float32)
        constants |= {f"{name}/column": np.array([split.feature]), f"{name}/last": last, f"{name}/table": split.right}
        steps = [
            ("Gather", ["rows", f"{name}/column"], "code", {"axis": 1}),
            ("Floor", [f"{name}/code"], "floor", {}),
            ("Equal", [f"{name}/code", f"{name}/floor"], "whole", {}),
            ("GreaterOrEqual", [f"{name}/code", "nothing"], "positive", {}),
            ("Less", [f"{name}/code", f"{name}/last"], "small", {}),
            ("And", [f"{name}/whole", f"{name}/positive"], "some", {}),
            ("And", [f"{name}/some", f"{name}/small"], "known", {}),
            ("Where", [f"{name}/known", f"{name}/code", f"{name}/last"], "number", {}),
            ("Cast", [f"{name}/number"], "index", {"to": 7}),  # INT64
            ("Gather", [f"{name}/table", f"{name}/index"], "value", {"axis": 0}),
        ]
        nodes += [helper.make_node(kind, given, [f"{name}/{out}"], **more) for kind, given, out, more in steps]
        outputs.append(f"{name}/value")
    return nodes, constants, outputs


def _attributes(forest: Forest) -> dict[str, Any]:
    """Return the trees as attributes of an ONNX node. Each attribute is a list over the nodes of all trees."""
    places = np.repeat(np.arange(len(forest.trees)), [len(tree.left) for tree in forest.trees])
    numbers = np.concatenate([np.arange(len(tree.left)) for tree in forest.trees])
    whole = {name: np.concatenate([getattr(tree, name) for tree in forest.trees]) for name in forest.trees[0]._fields}
    leaf = whole["left"] == -1
    branch = "BRANCH_LEQ" if forest.inclusive else "BRANCH_LT"
    return {
        "base_values": [forest.base],
        "nodes_treeids": places.tolist(),
        "nodes_nodeids": numbers.tolist(),
        "nodes_featureids": whole["feature"].tolist(),
        "nodes_values": whole["threshold"].tolist(),
        "nodes_modes": ["LEAF" if each else branch for each in leaf],
        "nodes_truenodeids": np.where(leaf, 0, whole["left"]).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, whole["right"]).tolist(),
        "nodes_missing_value_tracks_true": (whole["missing_left"] & ~leaf).astype(int).tolist(),
        "target_treeids": places[leaf].tolist(),
        "target_nodeids": numbers[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights": whole["value"][leaf].tolist(),
    }


def _zeros(forest: Forest, features: int) -> NDArray[np.float32] | None:
    """Return, for each feature, the value (0 or NaN) that replaces values close to 0 in the ONNX file, `(features,)`.

    Return None if no value must be replaced.
    """
    found, near = np.zeros((2, features), dtype=np.bool_), False
    for tree in forest.trees:
        split = tree.left != -1
        near |= forest.inclusive and bool((np.abs(tree.threshold[split]) <= TINY).any())
        for kind in (False, True):
            found[int(kind), tree.feature[split & (tree.zero_missing == kind)]] = True
    if found.all(axis=0).any():
        must = "treat 0 in the same way in all splits of a feature for the format onnx"
        bad_value(
            "model",
            f"{must} (model.txt in the folder of the model contains all splits)",
            "splits of one feature that treat 0 differently",
        )
    return np.where(found[1], np.float32(np.nan), np.float32(0)) if near or found[1].any() else None


def _thresholds(forest: Forest, features: int) -> list[NDArray[np.float32]]:
    """Return, for each feature, the thresholds of all splits of exported trees on this feature."""
    places = np.concatenate([tree.feature[tree.left != -1] for tree in forest.trees])
    values = np.concatenate([tree.threshold[tree.left != -1] for tree in forest.trees])
    return [values[places == feature] for feature in range(features)]


def _draw(thresholds: list[NDArray[np.float32]], counts: Mapping[int, int]) -> Draw:
    def draw(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
        rows = _rows(thresholds, shape, rng)
        for column, count in counts.items():
            codes = rng.integers(-1, count, size=shape).astype(np.float32)
            rows[..., column] = np.where(codes < 0, np.float32(np.nan), codes)
        return rows

    return draw


def _rows(
    thresholds: list[NDArray[np.float32]], shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return features for the check of an exported file of trees.

    The values are thresholds, the float32 numbers next to thresholds, zeros, NaN and random numbers.
    """
    rows = rng.standard_normal((*shape, len(thresholds)), dtype=np.float32)
    for feature, known in enumerate(thresholds):
        if len(known):
            drawn = rng.choice(known, shape)
            near = np.nextafter(drawn, np.float32(np.inf) * rng.choice([-1, 1], shape).astype(np.float32))
            values = np.choose(rng.integers(3, size=shape), [rows[..., feature], drawn, near])
            rows[..., feature] = np.clip(
                values, -_LARGE, _LARGE
            )  # features are finite, but a threshold may be infinite
    kind = rng.random(rows.shape)
    rows[kind < 0.1] = np.nan
    rows[kind > 0.9] = 0.0
    return rows
