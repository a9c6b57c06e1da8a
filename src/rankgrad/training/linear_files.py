"""Write linear rankers in the formats of search engines: Elasticsearch and OpenSearch LTR, and Solr LTR.

The preprocessing step `standardise` becomes the normalisers of the engine. The engines have no constant term, so
the normaliser of one feature contains the constant.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rankgrad.data import Preprocessing
from rankgrad.data.preprocessing.pipeline import Standardise
from rankgrad.errors import bad_value
from rankgrad.rankers.mlp import Linear

FORMATS = ("elasticsearch", "solr")


class LinearScores(NamedTuple):
    """A score is the sum of `weight * (x - mean) / deviation` over all features. The arrays are `(features,)`."""

    weight: NDArray[np.float32]
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]


def read_linear(ranker: nn.Module, steps: Preprocessing, format: str) -> LinearScores:
    """Return the weights and normalisers of a linear ranker.

    Args:
        ranker: ranker on the CPU.
        steps: fitted preprocessing; any step except `standardise` is an error.
        format: format of the file, for error messages.
    """
    if not isinstance(ranker, Linear):
        got = getattr(ranker, "model", type(ranker).__name__)
        bad_value(
            "model",
            f"be a linear ranker or trees for the format {format} (for a network, use onnx)",
            f"the ranker {got}",
        )
    weight = ranker.head.weight.detach().numpy()[0].astype(np.float64)
    constant = float(ranker.head.bias.detach())
    mean, inverse = np.zeros_like(weight), np.ones_like(weight)
    if steps.categorical:
        bad_value(
            "model",
            f"have no categorical features for the format {format}",
            f"{len(steps.categorical)} categorical features",
        )
    for step in steps.steps:
        if not isinstance(step, Standardise):
            bad_value(
                "model", f"have no preprocessing step except standardise for the format {format}", repr(step.name)
            )
        assert step.mean is not None
        assert step.inverse is not None
        mean = mean + step.mean / np.where(inverse == 0, 1.0, inverse)
        inverse = inverse * step.inverse
    weight = np.where(inverse == 0, 0.0, weight)  # a constant feature has no effect
    deviation = 1 / np.where(inverse == 0, 1.0, inverse)
    if constant:
        if not weight.any():
            bad_value(
                "model", f"have at least one weight that is not 0 for the format {format}", "only weights that are 0"
            )
        scale = np.where(weight == 0, 1.0, weight / deviation)
        moved = mean - constant / scale
        # A score has a rounding error in proportion to this product: a feature with a large mean is a bad choice.
        place = int(np.where(weight == 0, np.inf, np.abs(moved * scale)).argmin())
        mean[place] = moved[place]
    return LinearScores(*(array.astype(np.float32) for array in (weight, mean, deviation)))


def write_linear(scores: LinearScores, format: str, names: Sequence[str], name: str) -> bytes:
    """Return the content of a file for a search engine.

    Args:
        scores: weights and normalisers.
        format: a name in `FORMATS`.
        names: names of the features in the engine.
        name: name of the model in the engine.
    """
    weights = {known: float(weight) for known, weight in zip(names, scores.weight, strict=True)}
    pairs = zip(names, scores.mean.tolist(), scores.deviation.tolist(), strict=True)
    norms = {known: (mean, deviation) for known, mean, deviation in pairs if (mean, deviation) != (0.0, 1.0)}
    made: dict[str, Any]
    if format == "elasticsearch":
        model: dict[str, Any] = {"type": "model/linear", "definition": json.dumps(weights)}
        if norms:
            model["feature_normalizers"] = {
                known: {"standard": {"mean": mean, "standard_deviation": deviation}}
                for known, (mean, deviation) in norms.items()
            }
        made = {"model": {"name": name, "model": model}}
    else:
        kind = "org.apache.solr.ltr.norm.StandardNormalizer"
        features: list[dict[str, Any]] = [{"name": known} for known in names]
        for feature in features:
            if feature["name"] in norms:
                mean, deviation = norms[feature["name"]]
                feature["norm"] = {"class": kind, "params": {"avg": str(mean), "std": str(deviation)}}
        made = {"class": "org.apache.solr.ltr.model.LinearModel", "name": name, "features": features}
        made["params"] = {"weights": weights}
    return (json.dumps(made, indent=1) + "\n").encode()


def linear_scores(
    content: bytes, format: str, names: Sequence[str]
) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Return a function that computes the scores of a file, `(documents,)`, in float32 as a search engine does.

    Args:
        content: content of the file, from `write_linear`.
        format: format of the file.
        names: names of the features, in the order of the columns.
    """
    made = json.loads(content)
    if format == "elasticsearch":
        model = made["model"]["model"]
        weights = json.loads(model["definition"])
        norms = {name: norm["standard"] for name, norm in model.get("feature_normalizers", {}).items()}
        pairs = {name: (norm["mean"], norm["standard_deviation"]) for name, norm in norms.items()}
    else:
        weights = made["params"]["weights"]
        given = {feature["name"]: feature["norm"]["params"] for feature in made["features"] if "norm" in feature}
        pairs = {name: (norm["avg"], norm["std"]) for name, norm in given.items()}

    def score(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        total = np.zeros(len(rows), dtype=np.float32)
        for place, name in enumerate(names):
            mean, deviation = (np.float32(value) for value in pairs.get(name, (0.0, 1.0)))
            total += (rows[:, place] - mean) / deviation * np.float32(weights[name])
        return total

    return score
