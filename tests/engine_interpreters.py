"""Interpreters of the files that search engines read, in plain Python, one document at a time.

Each of them reads only the file, and follows the documentation and the source of the engine. Features are a mapping
from name to number, as an engine extracts them; None is a feature that a document does not have.
"""

import json
import math
import re
import struct


def f32(value):
    """Round as Java's float does."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def refuse_constant(name):
    """The JSON parsers of the engines refuse NaN and Infinity, which Python's parser accepts."""
    raise ValueError(name)


def ranklib(text):
    """RankLib's LambdaMART: `x <= threshold` goes left; an unknown feature is 0; features have numbers from 1."""
    header, lines = text.split("<ensemble>")
    assert header.splitlines()[0] == "## LambdaMART"
    tokens = re.findall(r"<(/?)(\w+)([^>]*)>\s*([^<]*)", "".join(line.strip() for line in lines.splitlines()))
    tokens = [(slash + tag, attributes, text.strip()) for slash, tag, attributes, text in tokens]
    at = 0

    def take(tag):
        nonlocal at
        found = tokens[at]
        assert found[0] == tag, (found, tag)
        at += 1
        return found

    def split(position):
        assert take("split")[1].strip() == position
        if tokens[at][0] == "output":
            node = float(take("output")[2])
            take("/output")
        else:
            feature = int(take("feature")[2])
            take("/feature")
            threshold = float(take("threshold")[2])
            take("/threshold")
            node = (feature, f32(threshold), split('pos="left"'), split('pos="right"'))
        take("/split")
        return node

    trees = []
    while tokens[at][0] == "tree":
        weight = float(re.search(r'weight="([^"]+)"', take("tree")[1]).group(1))
        trees.append((f32(weight), split("")))
        take("/tree")
    take("/ensemble")

    def score(features):
        total = 0.0
        values = [0.0 if value is None else f32(value) for value in features.values()]
        for weight, node in trees:
            while isinstance(node, tuple):
                node = node[2] if values[node[0] - 1] <= node[1] else node[3]
            total = f32(total + f32(node) * weight)
        return total

    return score


def elasticsearch(text):
    """The LTR plugin of Elasticsearch and OpenSearch: the body of a request to `_createmodel`."""
    body = json.loads(text)
    assert set(body) == {"model"}
    assert set(body["model"]) == {"name", "model"}
    model = body["model"]["model"]
    kind, definition = model["type"], json.loads(model["definition"], parse_constant=refuse_constant)
    norms = model.get("feature_normalizers", {})

    def normalised(features):
        out = {}
        for name, value in features.items():
            value = f32(value) if value is not None else (math.nan if kind == "model/xgboost+json" else 0.0)
            if name in norms:
                (norm,) = norms[name].items()
                assert norm[0] == "standard"
                value = f32(f32(value - f32(norm[1]["mean"])) / f32(norm[1]["standard_deviation"]))
            out[name] = value
        return out

    def leaf(node, features):
        while "leaf" not in node:
            first, second = node["children"]
            assert (node["yes"], node["no"]) == (first["nodeid"], second["nodeid"])  # the plugin refuses other files
            assert isinstance(node["depth"], int)
            value = features[node["split"]]
            if math.isnan(value):
                node = first if node["missing"] == node["yes"] else second
            else:
                node = first if f32(node["split_condition"]) > value else second
        return f32(node["leaf"])

    def score(features):
        features, total = normalised(features), 0.0
        if kind == "model/linear":
            assert set(definition) <= set(features)
            for name, value in features.items():
                total = f32(total + f32(value * f32(definition.get(name, 0.0))))
            return total
        assert kind == "model/xgboost+json"
        for tree in definition:
            total = f32(total + leaf(tree, features))
        return total

    return score


def solr(text):
    """Solr's LTR module: float32, `x <= threshold + 1e-6f`; from 9.2 on, a branch for missing values."""
    model = json.loads(text)
    order = {feature["name"]: feature.get("norm") for feature in model["features"]}
    kind, params = model["class"].rpartition(".")[2], model["params"]
    null_is_zero = params.get("isNullSameAsZero", True)
    assert isinstance(null_is_zero, bool)  # the setter takes a boolean; Solr refuses a text
    slack = f32(1e-6)

    def normalised(features):
        out = {}
        for name, norm in order.items():
            value = features[name]
            value = f32(value) if value is not None else (0.0 if null_is_zero else math.nan)
            if norm:
                assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
                average, deviation = f32(float(norm["params"]["avg"])), f32(float(norm["params"]["std"]))
                assert deviation > 0
                value = f32(f32(value - average) / deviation)
            out[name] = value
        return out

    def leaf(node, features):
        while "feature" in node:
            value = features[node["feature"]]
            if math.isnan(value) and not null_is_zero:
                side = node.get("missing", "right")
            else:
                assert null_is_zero or "missing" in node
                side = "left" if value <= f32(f32(float(node["threshold"])) + slack) else "right"
            node = node[side]
        return f32(float(node["value"]))

    def score(features):
        features, total = normalised(features), 0.0
        if kind == "LinearModel":
            assert set(params["weights"]) == set(order)
            for name, value in features.items():
                total = f32(total + f32(value * f32(params["weights"][name])))
            return total
        assert kind == "MultipleAdditiveTreesModel"
        for tree in params["trees"]:
            total = f32(total + f32(f32(float(tree["weight"])) * leaf(tree["root"], features)))
        return total

    return score


def vespa(text):
    """Vespa's importers of LightGBM and XGBoost write ranking expressions.

    Both write `x < t`, or `!(x >= t)` if a missing value (NaN) goes left. Vespa evaluates large forests with thresholds
    in single precision, other expressions in double precision: a threshold must be the same number in both.
    """
    model = json.loads(text, parse_constant=refuse_constant)

    def threshold(value):
        assert f32(float(value)) == float(value)
        return float(value)

    def value_of(features, name):
        return math.nan if features[name] is None else features[name]

    def from_xgboost(node, features):
        while "leaf" not in node:
            x, t = value_of(features, node["split"]), threshold(node["split_condition"])
            test = not x >= t if node["missing"] == node["yes"] else x < t
            (node,) = [child for child in node["children"] if child["nodeid"] == node["yes" if test else "no"]]
        return node["leaf"]

    def from_lightgbm(node, features):
        while "left_child" in node:
            x, t = value_of(features, model["feature_names"][node["split_feature"]]), threshold(node["threshold"])
            assert node["decision_type"] != "=="
            node = node["left_child" if (not x >= t if node["default_left"] else x < t) else "right_child"]
        return node["leaf_value"]

    if isinstance(model, list):
        return lambda features: sum(from_xgboost(tree, features) for tree in model)
    assert not model["objective"].startswith(("binary", "cross_entropy", "poisson", "gamma", "tweedie"))
    assert model["pandas_categorical"] == []
    return lambda features: sum(from_lightgbm(tree["tree_structure"], features) for tree in model["tree_info"])


INTERPRETERS = {"ranklib": ranklib, "elasticsearch": elasticsearch, "solr": solr, "vespa": vespa}


def scores_of(path, format, rows, names):
    """Scores of the rows by the interpreter of a file."""
    score = INTERPRETERS[format](path.read_text())
    given = [[None if math.isnan(value) else value for value in row] for row in rows.tolist()]
    return [score(dict(zip(names, row, strict=True))) for row in given]
