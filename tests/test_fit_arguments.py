"""Arguments of the `fit` of other libraries: the error says what to use instead, for each estimator."""

import re

import pytest

import rankgrad as rg
from rankgrad.estimators.blend import Blend

RANKERS = {"ranker": rg.Ranker(), "trees": rg.trees.TreeRanker(), "auto": rg.AutoRanker(), "blend": Blend([])}
POSITION = r"be left out, because position bias is not estimated yet .* sample_weight\)"
CATEGORICAL = r"be given as a setting of the ranker: categorical=\[...\]"
CASES = [
    *((name, "position", POSITION) for name in RANKERS),
    *((name, "categorical_feature", CATEGORICAL) for name in ("ranker", "trees", "auto")),
    *((name, "cat_features", CATEGORICAL) for name in ("ranker", "trees", "auto")),
    ("ranker", "trackers", "be given as a setting of the ranker: trackers=..."),
    ("trees", "trackers", r"be given as callbacks=\[...\], functions that receive each row of the log"),
    ("ranker", "epochs", "be given as a setting of the ranker: epochs=..."),
    ("trees", "weight", "be given as sample_weight"),
    ("auto", "feature_name", "be given as the columns of a data frame X"),
]


@pytest.mark.parametrize(("ranker", "argument", "must"), CASES)
def test_an_argument_of_another_library_has_a_hint(ranker, argument, must):
    with pytest.raises(TypeError, match=f"^{argument} must {must}; got the argument {argument} of fit$"):
        RANKERS[ranker].fit([[1.0]], [1], qid=[1], **{argument: [1]})


@pytest.mark.parametrize(("ranker", "argument"), [("blend", "categorical_feature"), ("auto", "trackers")])
def test_no_hint_names_what_the_ranker_does_not_have(ranker, argument):
    with pytest.raises(TypeError, match=f"^arguments of fit must be among X, y, .*; got {re.escape(repr(argument))}$"):
        RANKERS[ranker].fit([[1.0]], [1], qid=[1], **{argument: [1]})
