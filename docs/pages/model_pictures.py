"""Pictures of the guides on generated lists: importance of features, explanation of a list, reliability."""

from dataclasses import replace
from typing import Any

from .pictures import svg

PICTURES = ("importance", "explain", "calibration")
FEATURES, SEED = 14, 1


def pictures() -> dict[str, str]:
    """Return the pictures, by path."""
    charts = (*trees(), reliability())
    return {f"figures/{name}.svg": svg(chart) for name, chart in zip(PICTURES, charts, strict=True)}


def trees() -> tuple[Any, Any]:
    """Return the importance of features for trees, and the explanation of one list."""
    from rankgrad.data.synthetic import synthetic, true_features
    from rankgrad.experiments.report.importance_charts import explanation_chart, importance_chart
    from rankgrad.models import kind_of

    data, true = synthetic(800, features=FEATURES, seed=SEED, mean_length=20, noise=0.1), true_features(14, seed=SEED)
    names = tuple(f"feature {at + 1}{' (true)' if at in true else ''}" for at in range(FEATURES))
    test = replace(data.test, feature_names=names)
    settings = {"model": "lightgbm", "trees": 60, "learning_rate": 0.2, "num_leaves": 15, "loss": "xe_ndcg"}
    model = kind_of("lightgbm").fit(settings, data.train)
    found, one = model.feature_importance(test), model.explain(test, test.qids[0])
    return importance_chart(found, FEATURES), explanation_chart(one, 8)


def reliability() -> Any:
    """Return the reliability plot: sigmoids of the scores and calibrated probabilities of the same model."""
    from rankgrad.data.synthetic import synthetic
    from rankgrad.experiments.report.reliability_chart import SIGMOID, reliability_chart
    from rankgrad.models import kind_of

    data = synthetic(400, features=10, mean_length=20, seed=1)
    settings = {"model": "mlp:widths=32", "loss": "softmax", "preprocess": "standardise", "epochs": 15, "lr": 0.01}
    model = kind_of("mlp").fit(settings, data.train, data.validation)
    measured = {SIGMOID: model.reliability(data.test)}
    for method in ("platt", "isotonic"):
        model.calibrate(data.validation, method=method)
        measured[method] = model.reliability(data.test)
    return reliability_chart(measured)
