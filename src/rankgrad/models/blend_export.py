"""Export a blend as one ONNX file: the graphs of all models of the blend, and the weighted sum of the scores."""

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value, located
from rankgrad.models.aligned_model import AlignedModel
from rankgrad.models.protocol import Exported, TrainedModel
from rankgrad.training import export as network_export
from rankgrad.training.export import (
    PACKAGES,
    Draw,
    chosen_format,
    need_packages,
    run_onnx,
    write_checked,
)
from rankgrad.training.model import Model
from rankgrad.trees import export as tree_export
from rankgrad.trees.engine_files import FORMATS
from rankgrad.trees.model import TreeModel

if TYPE_CHECKING:
    from rankgrad.models.blend import BlendModel

_OPSET, _IR = 18, 8  # lowest versions of ONNX that the nodes of a blend need


def export(blend: "BlendModel", path: str | os.PathLike[str], *, format: str | None = None) -> Exported:
    """Write a blend to one ONNX file. Before, check that the scores of the file agree with `BlendModel.score`.

    The file has two inputs: `features (lists, n, f)` (float32, before any preprocessing) and `mask (lists, n)`
    (boolean, True for a document). A missing value is NaN, if all models accept missing values. The output is
    `scores (lists, n)`; padding has the score 0. If the blend is calibrated, there is also the output
    `calibrated (lists, n)`.

    Args:
        blend: blend of networks, trees and other blends, on any device.
        path: path of the file, which is written atomically.
        format: `"onnx"`; None if the path ends in `.onnx`.
    """
    path = Path(path)
    if format in FORMATS:
        must = "be 'onnx' for a blend, because other formats cannot standardise scores per list"
        bad_value("format", must, repr(format))
    format = chosen_format(path, format, {"onnx": ".onnx"}, (), " for a blend")
    need_packages(*PACKAGES)
    kind, given = type(blend), blend
    blend = _on_cpu(blend, kind)
    blend.calibration, blend.feature_names, blend.categories = given.calibration, given.feature_names, given.categories
    graph = _BlendGraph(kind)
    graph.add("Identity", graph.add_blend(blend, ""), output="scores")
    content = graph.content(blend.features)
    return write_checked(blend, path, format, content, "onnxruntime", run_onnx(content), graph.draw)


def _on_cpu(model: Any, kind: type["BlendModel"]) -> Any:
    """Return a copy of a model for the export of a blend, with its networks on the CPU."""
    if isinstance(model, kind):
        return replace(model, models=[_on_cpu(part, kind) for part in model.models])
    return network_export.on_cpu(model) if isinstance(model, Model) else model


class _BlendGraph:
    """An ONNX graph to which blends are added."""

    def __init__(self, kind: type["BlendModel"]) -> None:
        self.kind = kind
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.functions: dict[tuple[str, str], Any] = {}
        self.opsets, self.ir = {"": _OPSET}, _IR
        self.networks: dict[str, Any] = {}  # graph of each architecture
        self.draws: list[Draw] = []  # one function per model that is not a blend
        self.missing = True  # True if features may be NaN

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node to the ONNX graph of the blend, and return the name of its output."""
        output = output or f"blend/{len(self.nodes)}"
        self.nodes.append(import_module("onnx").helper.make_node(operation, inputs, [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Add a constant to the ONNX graph of the blend, and return its name."""
        name = f"blend/constant{len(self.constants)}"
        self.constants.append(import_module("onnx").numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def add_blend(self, blend: "BlendModel", place: str) -> str:
        """Add nodes that compute `BlendModel.score` in float64, and return the name of the output.

        Args:
            blend: blend to add.
            place: folder of this blend, relative to the folder of the exported blend, with a slash at the end.
        """
        onnx = import_module("onnx")
        used = [number for number, weight in enumerate(blend.weights) if weight]
        last, documents, zero = self.constant([-1], np.int64), self.constant([1], np.int64), self.constant(0)
        names = [self.add_model(blend.models[number], f"{place}part-{number + 1}") for number in used]
        mask = self.add("Unsqueeze", "mask", last)
        scores = self.add("Concat", *(self.add("Unsqueeze", name, last) for name in names), axis=-1)
        scores = self.add("Where", mask, self.add("Cast", scores, to=onnx.TensorProto.DOUBLE), zero)
        count = self.add("ReduceSum", self.add("Cast", mask, to=onnx.TensorProto.DOUBLE), documents)
        count = self.add("Max", count, self.constant(1))

        def mean(values: str) -> str:
            return self.add("Div", self.add("ReduceSum", values, documents), count)

        size = self.add("ReduceMax", self.add("Abs", scores), self.constant([0, 1], np.int64))
        centred = self.add("Where", mask, self.add("Sub", scores, mean(scores)), zero)
        spread = self.add("Sqrt", mean(self.add("Mul", centred, centred)))
        differs = self.add("Greater", spread, self.add("Mul", size, self.constant(blend.equal)))
        divided = self.add("Div", centred, self.add("Where", differs, spread, self.constant(1)))
        total = self.add("MatMul", self.add("Where", differs, divided, zero), self.constant(blend.weights[used]))
        large = self.add("Greater", self.add("Abs", total), self.constant(blend.negligible))
        return self.add("Cast", self.add("Where", large, total, zero), to=onnx.TensorProto.FLOAT)

    def add_model(self, model: TrainedModel, place: str) -> str:
        """Add nodes that compute the scores of a model of the blend, and return the name of the output.

        Args:
            model: model to add.
            place: folder of the model, relative to the folder of the exported blend.
        """
        if isinstance(model, self.kind):
            return self.add_blend(model, f"{place}/")
        if isinstance(model, AlignedModel):
            must = "have the categories and the order of features of the first model, so that the blend can be exported"
            bad_value(place, must, "others")
        if not isinstance(model, Model | TreeModel):
            got = type(getattr(model, "estimator", model)).__name__
            bad_value(place, "be a network, LightGBM, XGBoost or a blend, so that the blend can be exported", got)
        try:
            if isinstance(model, Model):
                made, draw = network_export.as_onnx(model, self.networks)
                self.missing = self.missing and model.takes_missing
            else:
                made, draw = tree_export.as_onnx(model)
        except ValueError as error:
            raise located(error, place) from error
        self.draws.append(draw)
        graph = made.graph
        del graph.value_info[:]
        for name in ("features", "mask"):
            self.add("Identity", name, output=f"{place}/{name}")
        import_module("onnx").compose.add_prefix_graph(graph, f"{place}/", inplace=True)
        for node in graph.node:
            del node.metadata_props[:]
        self.nodes.extend(graph.node)
        self.constants.extend(graph.initializer)
        self.functions |= {(each.domain, each.name): each for each in made.functions}
        self.ir = max(self.ir, made.ir_version)
        for opset in made.opset_import:
            self.opsets[opset.domain] = max(opset.version, self.opsets.get(opset.domain, 0))
        return f"{place}/scores"

    def content(self, features: int) -> bytes:
        """Return the content of the ONNX file of the blend."""
        onnx = import_module("onnx")
        lists: list[Any] = ["lists", "documents"]
        inputs = [
            onnx.helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, [*lists, features]),
            onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.BOOL, lists),
        ]
        outputs = [onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, lists)]
        graph = onnx.helper.make_graph(self.nodes, "blend", inputs, outputs, self.constants)
        made = onnx.helper.make_model(
            graph,
            producer_name="rankgrad",
            opset_imports=[onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()],
            ir_version=self.ir,
            functions=list(self.functions.values()),
        )
        onnx.checker.check_model(made)
        content: bytes = made.SerializeToString()
        return content

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return random features to check the file of a blend; those of each document suit one random model."""
        drawn = np.stack([draw(shape, rng) for draw in self.draws])
        chosen = rng.integers(len(drawn), size=shape)
        rows = np.take_along_axis(drawn, chosen[None, ..., None], axis=0)[0]
        return rows if self.missing else np.where(np.isnan(rows), np.float32(0), rows)
