"""Export a neural model as one file that computes scores from raw features.

The format is ONNX or PyTorch's `.pt2`; linear rankers also have the formats of search engines.
"""

import copy
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.atomic_files import naming, writing_output
from rankgrad.custom_objects import describe
from rankgrad.data import Preprocessing
from rankgrad.data.categories import to_json
from rankgrad.data.preprocessing.pipeline import FillMissing, Quantile, SignedLog1p, Standardise
from rankgrad.errors import bad_value, first_line, one_of
from rankgrad.models.protocol import EXPORT_TOLERANCE, Exported
from rankgrad.rankers.custom import CustomFlat, CustomRanker
from rankgrad.training import linear_files

FORMATS = {"onnx": ".onnx", "torch": ".pt2"}
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TRACED = (3, 5)  # numbers of lists and documents with which the model is traced
CHECKED = ((1, 1), (7, 2), (4, 33))  # (lists, documents) of the inputs of the check; all differ from the traced shape


class Exportable(Protocol):
    """The attributes and methods of a neural model that the export uses."""

    ranker: nn.Module
    steps: Preprocessing
    features: int
    calibration: Any
    feature_names: tuple[str, ...] | None

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]: ...


class Scoring(nn.Module):
    """The exported module. It applies preprocessing and ranker to padded lists of raw features.

    Padding may contain any values. The fitted arrays of the preprocessing are buffers of the module.
    """

    def __init__(self, model: Exportable) -> None:
        super().__init__()
        self.ranker, self.steps = model.ranker, model.steps
        for number, step in enumerate(model.steps.steps):
            for name in step.fitted:
                array = getattr(step, name)
                self.register_buffer(f"step{number}_{name}", None if array is None else torch.tensor(array))

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Return scores `(lists, n)` of `features (lists, n, f)`; `mask (lists, n)` is True for a document."""
        features = torch.where(mask[..., None], features, 0.0)
        steps = [
            replace(step, **{name: getattr(self, f"step{number}_{name}") for name in step.fitted})
            for number, step in enumerate(self.steps.steps)
        ]
        ready = replace(self.steps, steps=tuple(steps)).transform(features, mask=mask)
        scores: Tensor = self.ranker.padded(ready, mask)  # type: ignore[operator]
        return scores


def export(model: Exportable, path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
    """Write a neural model to one file, after a check that the scores of the file agree with `Model.score`.

    The check uses inputs of several shapes.

    The file has two inputs: `features (lists, n, f)` (float32, raw) and `mask (lists, n)` (boolean, True for a
    document). The number of lists and n must be at least 1. The output is `scores (lists, n)`; the scores of padding
    are finite and have no meaning. If the model is calibrated, an ONNX file also has the output
    `calibrated (lists, n)`; a `.pt2` file has only scores.

    If the model accepts missing values, a missing value is NaN. The value of a categorical feature is the position of
    the category in the list `categories` of `config.json`.

    Args:
        model: model on any device. The exported model computes in float32 and runs on any device.
        path: path of the file, which is written atomically.
        format: `"onnx"` or `"torch"` (for `torch.export.load`); for a linear ranker also `"elasticsearch"` or
            `"solr"`. With None, the extension of the path, `.onnx` or `.pt2`, determines the format.

    Example:
        >>> from rankgrad import rankers
        >>> from rankgrad.training import Model
        >>> model = Model(rankers.build("linear", features=2), Preprocessing())
        >>> done = export(model, getfixture("tmp_path") / "model.pt2")
        >>> done.engine, done.difference < 1e-5
        ('torch.export', True)
    """
    path = Path(path)
    format = chosen_format(path, format, FORMATS, linear_files.FORMATS, "")
    if format == "onnx":
        need_packages(*PACKAGES)
    model = on_cpu(model)
    if format in linear_files.FORMATS:
        return _engine(model, path, format)
    with _exporting(model):
        content, engine, run = (_onnx if format == "onnx" else _torch)(_trace(model))
    return write_checked(model, path, format, content, engine, run, _draw(model))


def write_checked(
    model: Any, path: Path, format: str, content: bytes, engine: str, run: "Run", draw: "Draw"
) -> Exported:
    """Check the scores of an exported file, complete the file if it is ONNX, and write it.

    Args:
        model: model that the file contains.
        path: path of the file, which is written atomically.
        format: format of the file.
        content: content of the file.
        engine: name of the program of `run`.
        run: function that returns the scores of the file.
        draw: function that returns features for the check.
    """
    difference = compare_outputs(run, model.score, draw)
    content, calibrated = complete_onnx(content, model, draw) if format == "onnx" else (content, None)
    with writing_output(path) as file, naming(path):
        file.write(content)
    return Exported(path, format, engine, CHECKED, difference, calibrated)


def write_for_engine(
    model: Any, path: Path, format: str, content: bytes, scores: Callable[..., NDArray[Any]], draw: "Draw"
) -> Exported:
    """Check and write a file for a search engine, as `write_checked`.

    Args:
        model: model that the file contains.
        path: path of the file.
        format: format of the file.
        content: content of the file.
        scores: function that computes scores `(documents,)` from the content, as the engine does.
        draw: function that returns features for the check.
    """

    def run(rows: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        return scores(np.where(mask[..., None], rows, 0).reshape(-1, model.features)).reshape(mask.shape)

    return write_checked(model, path, format, content, f"an interpreter of {format} files", run, draw)


def chosen_format(path: Path, format: str | None, known: Mapping[str, str], others: Iterable[str], what: str) -> str:
    """Return the format of an export: the given one, or the one of the extension of the path.

    Args:
        path: path of the file.
        format: name of the format, or None.
        known: extension of each format that has one.
        others: names of the other formats.
        what: what is exported, for the error.
    """
    if format is not None:
        one_of("format", format, [*known, *others])
        return format
    found = {ending: name for name, ending in known.items()}.get(path.suffix.lower())
    if found is None:
        bad_value("path", f"end in {' or '.join(known.values())}{what} if format is None", repr(str(path)))
    return found


def complete_onnx(content: bytes, model: Any, draw: "Draw") -> tuple[bytes, float | None]:
    """Add the description of a model, and its calibration, to an ONNX file of scores.

    The description is in `metadata_props`: `rankgrad.version`, and as JSON `rankgrad.feature_names` (a list, in the
    order of the columns) and `rankgrad.categories` (a list per categorical column; columns count from 0), if the model
    has them.

    Return the new content of the file, and the largest difference from the calibrated values of the model, or None if
    the model is not calibrated.

    Args:
        content: content of the file.
        model: model that the file contains.
        draw: function that returns features for the check.
    """
    import rankgrad

    about = {"rankgrad.version": rankgrad.__version__}
    if model.feature_names is not None:
        about["rankgrad.feature_names"] = json.dumps([*model.feature_names])
    if model.categories:
        about["rankgrad.categories"] = json.dumps(to_json(model.categories))
    onnx = import_module("onnx")
    described = onnx.ModelProto()
    onnx.helper.set_model_props(described, about)
    content += described.SerializeToString()  # joined messages of a protocol buffer are one message with all fields
    if model.calibration is None:
        return content, None
    from rankgrad.models.calibration_export import add_calibration

    return add_calibration(content, model.calibration, draw, CHECKED)


def _engine(model: Exportable, path: Path, format: str) -> Exported:
    names = engine_names(model)
    content = linear_files.write_linear(
        linear_files.read_linear(model.ranker, model.steps, format), format, names, path.stem
    )
    scores = linear_files.linear_scores(content, format, names)
    return write_for_engine(model, path, format, content, scores, _draw(model))


def engine_names(model: Any) -> list[str]:
    """Return the names of the features in a search engine. If the model has no names, they are `feature_1`, ...

    It is an error if two features have the same name.

    Args:
        model: model to export.
    """
    names = list(model.feature_names or (f"feature_{place + 1}" for place in range(model.features)))
    if twice := [name for name in names if names.count(name) > 1]:
        bad_value("feature_names", "differ from each other", f"{twice[0]!r} twice")
    return names


def on_cpu(model: Exportable) -> Exportable:
    """Return a copy of a model, on the CPU. The original model stays on its device, because other threads may use it.

    Args:
        model: model on any device.
    """
    model = copy.copy(model)
    model.ranker = copy.deepcopy(model.ranker).to("cpu")
    return model


def as_onnx(model: Exportable, graphs: dict[str, Any]) -> tuple[Any, "Draw"]:
    """Convert a neural model to an `onnx.ModelProto`. Also return a function that makes random features for the check.

    PyTorch's exporter needs some seconds, so it runs only once per architecture (except for custom networks). For
    another network of the same architecture, only the weights in the ONNX model are replaced.

    Args:
        model: model on the CPU.
        graphs: ONNX models of earlier calls, by architecture; the function adds the model of a new architecture.
    """
    values = {name: value for name, value in Scoring(model).state_dict().items() if value.is_floating_point()}
    shapes = {name: [*value.shape] for name, value in values.items()}
    key = json.dumps([model.ranker.config, model.steps.to_config()[0], shapes], default=str)
    if key not in graphs:
        with _exporting(model):
            made = _convert(_trace(model), optimize=False).model_proto  # an optimised graph has computed initializers
        if isinstance(model.ranker, CustomRanker) or {each.name for each in made.graph.initializer} != {*values}:
            return made, _draw(model)
        graphs[key] = made
    made = copy.deepcopy(graphs[key])
    for initializer in made.graph.initializer:
        value = values[initializer.name].numpy()
        initializer.CopyFrom(import_module("onnx").numpy_helper.from_array(value, initializer.name))
    return made, _draw(model)


def _trace(model: Exportable) -> torch.export.ExportedProgram:
    rows, mask = torch.zeros(*_TRACED, model.features), torch.ones(_TRACED, dtype=torch.bool)
    with torch.no_grad():
        return torch.export.export(Scoring(model), (rows, mask), dynamic_shapes=_shapes())


def _shapes() -> dict[str, dict[int, Any]]:
    lists, documents = torch.export.Dim("lists"), torch.export.Dim("documents")
    return {name: {0: lists, 1: documents} for name in ("features", "mask")}


# A function of padded features and their mask that returns scores.
Run = Callable[[NDArray[np.float32], NDArray[np.bool_]], NDArray[np.float32]]
# A function of a shape (lists, n) and a random generator that returns features.
Draw = Callable[[tuple[int, int], np.random.Generator], NDArray[np.float32]]


def _onnx(program: torch.export.ExportedProgram) -> tuple[bytes, str, Run]:
    content: bytes = _convert(program).model_proto.SerializeToString()
    return content, "onnxruntime", run_onnx(content)


def _convert(program: torch.export.ExportedProgram, optimize: bool = True) -> Any:
    # Replace the operations of preprocessing that ONNX does not have.
    replacements: Any = {torch.ops.aten.searchsorted.Tensor: _search, torch.ops.aten.log1p.default: _log1p}
    made: Any = torch.onnx.export(
        program.run_decompositions(replacements),
        dynamo=True,
        verbose=False,
        input_names=["features", "mask"],
        output_names=["scores"],
        dynamic_shapes=_shapes(),  # given again, so that the axes in the ONNX file have names
        optimize=optimize,
    )
    made.model.producer_name = "rankgrad"
    return made


def run_onnx(content: bytes) -> Run:
    """Return a function that computes the scores of an ONNX file with onnxruntime.

    Args:
        content: content of the file.
    """
    session = import_module("onnxruntime").InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda rows, mask: session.run(["scores"], {"features": rows, "mask": mask})[0]


def _search(knots: Tensor, values: Tensor, **_: Any) -> Tensor:
    """Count the knots below each value by bisection. This replaces `torch.searchsorted`, which ONNX does not have."""
    known = knots.shape[-1]
    below = torch.zeros_like(values, dtype=torch.int64)
    step = 1 << (known.bit_length() - 1)
    while step:
        further = below + step
        less = knots.gather(-1, further.clamp(max=known) - 1) < values
        below = torch.where((further <= known) & less, further, below)
        step //= 2
    return below


def _log1p(x: Tensor) -> Tensor:
    """Compute `log1p(x)` by Kahan's method. The method of PyTorch's ONNX exporter loses digits if x is small."""
    u = 1 + x
    return torch.where(u == 1, x, torch.log(u) * (x / torch.where(u == 1, 1.0, u - 1)))


def _torch(program: torch.export.ExportedProgram) -> tuple[bytes, str, Run]:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    module = torch.export.load(file).module()

    def run(rows: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        with torch.no_grad():
            scores: NDArray[np.float32] = module(torch.from_numpy(rows), torch.from_numpy(mask)).numpy()
        return scores

    return file.getvalue(), "torch.export", run


def need_packages(*packages: str) -> None:
    """Raise an error if a package that an export needs is not installed.

    Args:
        packages: names of the packages.
    """
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ModuleNotFoundError(f"export needs {' and '.join(missing)}: pip install 'rankgrad[export]'")


def compare_outputs(run: Run, score: Callable[..., NDArray[np.float32]], draw: Draw) -> float:
    """Compare the scores of an exported file with the scores of its model, and return the largest absolute difference.

    If the largest absolute score of an input is above 1, the differences are divided by this score. It is an error if
    the largest difference is above `EXPORT_TOLERANCE`.

    Args:
        run: function that returns the scores of the exported file.
        score: function that returns the scores of the model.
        draw: function that returns random raw features for the comparison.
    """
    rng, worst = np.random.default_rng(0), 0.0
    for shape in CHECKED:
        rows = draw(shape, rng)
        mask = rng.random(shape) < 0.7
        # There is at least one document. If there are several lists, the last one is empty.
        mask[0, 0], mask[-1] = True, shape[0] == 1
        expected = score(rows[mask], np.concatenate([[0], np.cumsum(mask.sum(1))]))
        rows[~mask] = np.nan
        scores = run(rows, mask)
        if not np.isfinite(scores).all():
            raise ArithmeticError(f"exported scores must be finite; got NaN or infinity at shape {shape}")
        scale = max(1.0, float(np.abs(expected).max()))
        worst = max(worst, float(np.abs(scores[mask] - expected).max()) / scale)
    if worst > EXPORT_TOLERANCE:
        raise ArithmeticError(
            f"exported scores must differ from the model's scores by at most {EXPORT_TOLERANCE:g}; got {worst:g}"
        )
    return worst


def _draw(model: Exportable) -> Draw:
    def draw(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
        width = model.features - len(model.steps.categorical)
        rows = _plausible(model.steps, rng.standard_normal((*shape, width), dtype=np.float32), rng)
        for column, count in model.steps.categorical:  # sorted by column
            codes = rng.integers(-1, count + 1, size=shape).astype(np.float32)  # the first and the last are unknown
            rows = np.insert(rows, column, np.where(codes < 0, np.float32(np.nan), codes), axis=-1)
        return rows

    return draw


def _plausible(steps: Preprocessing, rows: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return raw features for the check of an exported neural model.

    After preprocessing, these features have approximately a normal distribution.
    """
    for step in reversed(steps.steps):
        if isinstance(step, Standardise):
            assert step.mean is not None
            assert step.inverse is not None
            rows = rows / (step.inverse + (step.inverse == 0)) + step.mean
        elif isinstance(step, SignedLog1p):
            rows = np.sign(rows) * np.expm1(np.minimum(np.abs(rows), np.float32(60)))
        elif isinstance(step, Quantile):
            assert step.knots is not None
            places = rng.integers(len(step.knots), size=rows.shape)
            rows = np.take_along_axis(step.knots, places.reshape(-1, rows.shape[-1]), 0).reshape(rows.shape)
        elif isinstance(step, FillMissing):
            rows = np.where(rng.random(rows.shape) < 0.2, np.float32(np.nan), rows)
    return rows.astype(np.float32)


@contextmanager
def _exporting(model: Exportable) -> Iterator[None]:
    """Hide the messages of the exporter. If a custom network cannot be exported, the error contains its name."""
    custom = model.ranker if isinstance(model.ranker, CustomRanker) else None
    if isinstance(custom, CustomFlat):
        bad_value("model", "take rows or padded lists for export", f"{describe(custom.network)}, which takes offsets")
    try:
        with _quiet():
            yield
    except Exception as error:
        if custom is None:
            raise
        got = f"{describe(custom.network)} and the error {first_line(error)}"
        bad_value("model", "be a network that torch.export can trace", got)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the messages of the exporter, but not its errors."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
