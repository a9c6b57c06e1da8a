"""Page about the importance of features and the explanation of a list, and its pictures on generated lists."""

from dataclasses import replace

from .pictures import svg
from .templates import fill

PICTURES = ("importance", "explain")
FEATURES, SEED = 14, 1


def page() -> str:
    """Return the page."""
    return fill("importance")


def pictures() -> dict[str, str]:
    """Return the pictures, by path: the importance of features for trees, and the explanation of one list."""
    from rankgrad.data.synthetic import synthetic, true_features
    from rankgrad.experiments.report.importance_charts import explanation_chart, importance_chart
    from rankgrad.models import kind_of

    data, true = synthetic(800, features=FEATURES, seed=SEED, mean_length=20, noise=0.1), true_features(14, seed=SEED)
    names = tuple(f"feature {at + 1}{' (true)' if at in true else ''}" for at in range(FEATURES))
    test = replace(data.test, feature_names=names)
    settings = {"model": "lightgbm", "trees": 60, "learning_rate": 0.2, "num_leaves": 15, "loss": "xe_ndcg"}
    model = kind_of("lightgbm").fit(settings, data.train)
    found, one = model.feature_importance(test), model.explain(test, test.qids[0])
    charts = (importance_chart(found, FEATURES), explanation_chart(one, 8))
    return {f"figures/{name}.svg": svg(chart) for name, chart in zip(PICTURES, charts, strict=True)}
