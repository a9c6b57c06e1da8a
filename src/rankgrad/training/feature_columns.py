"""Build the parts of a neural ranker that depend on the columns: preprocessing, and embeddings of categories."""

from dataclasses import replace
from typing import Any

import numpy as np

from rankgrad.data import Dataset, Preprocessing
from rankgrad.data.sparse_rows import dense
from rankgrad.data.tables.errors import some
from rankgrad.errors import bad_value
from rankgrad.rankers.custom import as_ranker
from rankgrad.rankers.embedded import EmbeddedCategories, embedded_width
from rankgrad.rankers.scorer import Scorer


def fitted_preprocessing(steps: Preprocessing, data: Dataset) -> Preprocessing:
    """Return the preprocessing of a neural run, fitted on the training lists.

    Args:
        steps: preprocessing of the settings.
        data: training lists.
    """
    # A column without any value has one category that never occurs, because an embedding needs a category.
    categorical = tuple((column, max(1, len(values))) for column, values in sorted((data.categories or {}).items()))
    found = replace(steps, categorical=categorical).fit(data)
    if any(np.isnan(array).any() for array in found.to_config()[1].values()):
        names = data.feature_names or range(1, data.features.shape[1] + 1)
        columns = [column for column in range(len(names)) if column not in (data.categories or {})]
        missing = [names[column] for column in columns if np.isnan(dense(data.features[:, [column]])).any()]
        must = "be 'zero', 'mean' or 'indicator' for a network if the training lists have missing values"
        bad_value("missing", must, f"missing values in the features {some(missing)}")
    return found


def make_ranker(model: Any, features: int, steps: Preprocessing) -> Scorer:
    """Make a ranker for the columns after preprocessing. Categorical features get embeddings.

    Args:
        model: name and options, a network or a function: the result of `rankgrad.rankers.custom.check_ranker`.
        features: number of features of the data.
        steps: fitted preprocessing.
    """
    width = features + steps.added
    if not steps.categorical:
        return as_ranker(model, width)
    counts = [count for _, count in steps.categorical]
    if not isinstance(model, tuple):
        bad_value("model", "be a name such as 'mlp' if a feature is categorical", type(model).__name__)
    network = as_ranker(model, embedded_width(width, counts))
    return EmbeddedCategories(width, counts, network)
