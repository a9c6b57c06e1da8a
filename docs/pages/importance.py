"""Page about the importance of features and the explanation of a list, and its pictures on generated lists."""

import re
from dataclasses import replace
from typing import Any

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


def svg(chart: Any) -> str:
    """Return a chart as SVG without invisible parts.

    Args:
        chart: chart of Altair.
    """
    import vl_convert

    text = str(vl_convert.vegalite_to_svg(chart.to_dict())) + "\n"
    text = re.sub(r' (?:aria-[a-z]+|class|role|pointer-events|font-family)="[^"]*"| opacity="1"', "", text)
    return text.replace("<svg ", '<svg font-family="sans-serif" ', 1)
