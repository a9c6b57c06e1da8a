"""Add the calibration of a model to an ONNX file: the output `calibrated`, and `probabilities` for grades."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.models.calibration import Calibration, Curve, LogisticCurve

TOLERANCE = 1e-5  # maximum difference between the calibrated values of the file and of the calibration
Draw = Callable[[tuple[int, int], np.random.Generator], NDArray[np.float32]]


def add_calibration(
    content: bytes, calibration: Calibration, draw: Draw, shapes: Sequence[tuple[int, int]]
) -> tuple[bytes, float]:
    """Add calibrated values to an ONNX file; return the file, and the largest error of the calibrated values.

    The new output `calibrated (lists, n)` is the probability or the expected grade. For grades, the output
    `probabilities (lists, n, grades)` has the probability of each grade. The error is the difference from `calibration`
    for the same scores, which the file computes. Scores of the model are not used, because they have other rounding
    errors, and a steep isotonic function would magnify the difference.

    Args:
        content: ONNX file with the output `scores`.
        calibration: calibration of the model.
        draw: function that returns random features for the check.
        shapes: shapes (lists, n) of the check.
    """
    onnx = import_module("onnx")
    made = onnx.load_from_string(content)
    graph = _Graph(made.graph)
    number, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    scores = graph.add("Unsqueeze", graph.add("Cast", "scores", to=double), graph.constant([-1], np.int64))
    columns = [graph.add_curve(curve, scores) for curve in calibration.curves]
    for place in range(1, len(columns)):
        columns[place] = graph.add("Min", columns[place - 1], columns[place])
    above = graph.add("Concat", *columns, axis=-1)  # (lists, n, events)
    total = graph.add("MatMul", above, graph.constant(np.diff(calibration.grades)))
    values = graph.add("Add", total, graph.constant(calibration.grades[0]))
    graph.add("Cast", values, output="calibrated", to=number)
    made.graph.output.append(onnx.helper.make_tensor_value_info("calibrated", number, ["lists", "documents"]))
    names = ["scores", "calibrated"]
    if calibration.target == "grade":
        one = graph.add("Sub", graph.constant(1.0), graph.add("Mul", columns[0], graph.constant(0.0)))
        upper = graph.add("Concat", one, above, axis=-1)
        lower = graph.add("Concat", above, graph.add("Sub", one, one), axis=-1)
        graph.add("Cast", graph.add("Sub", upper, lower), output="probabilities", to=number)
        shape = ["lists", "documents", len(calibration.grades)]
        made.graph.output.append(onnx.helper.make_tensor_value_info("probabilities", number, shape))
        names.append("probabilities")
    onnx.checker.check_model(made)
    content = made.SerializeToString()
    return content, _compare(content, names, calibration, draw, shapes)


class _Graph:
    """An ONNX graph to which the nodes of a calibration are added."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.count = graph, 0

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node to the ONNX graph of a calibration, and return the name of its output."""
        output = output or self._name()
        self.graph.node.append(import_module("onnx").helper.make_node(operation, inputs, [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Add a constant to the ONNX graph of a calibration, and return its name."""
        name = self._name()
        self.graph.initializer.append(import_module("onnx").numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add_curve(self, curve: Curve, scores: str) -> str:
        """Add nodes for the calibrated probability of one event; return the name of the output, `(lists, n, 1)`."""
        if isinstance(curve, LogisticCurve):
            onnx = import_module("onnx").TensorProto
            line = self.add("Add", self.add("Mul", scores, self.constant(curve.slope)), self.constant(curve.intercept))
            # Only the sigmoid is in float32, because not every program has it in float64.
            return self.add("Cast", self.add("Sigmoid", self.add("Cast", line, to=onnx.FLOAT)), to=onnx.DOUBLE)
        knots, values = np.array(curve.knots), np.array(curve.values)
        if len(knots) == 1:
            knots, values = np.append(knots, np.nextafter(knots[0], np.inf)), np.repeat(values, 2)
        slopes = np.diff(values) / np.diff(knots)
        inside = self.add("Clip", scores, self.constant(knots[0]), self.constant(knots[-1]))
        onnx = import_module("onnx").TensorProto
        reached = self.add("Cast", self.add("GreaterOrEqual", inside, self.constant(knots[1:-1])), to=onnx.INT64)
        place = self.add("ReduceSum", reached, self.constant([-1], np.int64))  # segment of the score, (lists, n, 1)
        start, base, slope = (
            self.add("Gather", self.constant(each), place) for each in (knots[:-1], values[:-1], slopes)
        )
        return self.add("Add", base, self.add("Mul", slope, self.add("Sub", inside, start)))

    def _name(self) -> str:
        self.count += 1
        return f"calibration/{self.count}"


def _compare(
    content: bytes, names: list[str], calibration: Calibration, draw: Draw, shapes: Sequence[tuple[int, int]]
) -> float:
    session = import_module("onnxruntime").InferenceSession(content, providers=["CPUExecutionProvider"])
    rng, worst = np.random.default_rng(1), 0.0
    span = calibration.grades[-1] - calibration.grades[0]
    for shape in shapes:
        rows, mask = draw(shape, rng), np.ones(shape, dtype=np.bool_)
        scores, values, *more = session.run(names, {"features": rows, "mask": mask})
        pairs = [(values / span, calibration.values(scores) / span)]
        pairs += [(each, calibration.probabilities(scores)) for each in more]
        worst = max(worst, *(float(np.abs(got - wanted).max()) for got, wanted in pairs))
    if not worst <= TOLERANCE:
        raise ArithmeticError(
            f"exported probabilities must agree with the calibration within {TOLERANCE:g}; got the difference {worst:g}"
        )
    return worst
