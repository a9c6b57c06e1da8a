"""A script as a user writes it: mypy must know every type in it, and find the two mistakes. `test_types.py` runs it.

mypy fails where `assert_type` is not right, and where a `type: ignore` finds nothing to ignore.
"""

# mypy: disallow-untyped-calls, disallow-any-generics, warn-return-any, strict-equality, no-implicit-reexport

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, randn, tensor
from typing_extensions import assert_type

import rankgrad as rg


def by_hand() -> Tensor:
    """Losses, metrics, relaxations and rankers on tensors."""
    scores, labels = tensor([[2.0, 1.0, 3.0]]), tensor([[1.0, 0.0, 0.0]])
    loss = rg.losses.lambdaloss(scores, labels, k=5)
    assert_type(loss, Tensor)
    learn = rg.losses.LearnDCG()
    assert_type(learn, rg.losses.LearnDCG)
    assert_type(learn(scores, labels), Tensor)
    assert_type(rg.losses.parse_loss("softmax")(scores, labels), Tensor)
    assert_type(rg.losses.gumbel(rg.losses.ranknet, samples=2)(scores, labels), Tensor)
    operator = rg.relax.neural_sort(temperature=0.5)
    assert_type(operator.ranks(scores), Tensor)
    assert_type(rg.losses.relaxed(rg.metrics.AP, operator)(scores, labels), Tensor)
    assert_type(rg.losses.value_and_grad(rg.losses.softmax, scores, labels), tuple[Tensor, Tensor])
    assert_type(rg.metrics.ndcg(scores, labels, k=10), Tensor)
    assert_type(rg.metrics.parse_metric("nDCG@10"), rg.metrics.Metric)
    ranker = rg.rankers.build("mlp", features=4, widths=[8])
    assert_type(ranker(randn(3, 4), tensor([0, 3])), Tensor)
    with rg.backend("plain", native=False):
        return loss + rg.losses.softmax(scores, labels)


def with_data(name: str) -> float:
    """A data set, estimators on it, and what they are worth."""
    splits = rg.data.load(name)
    assert_type(splits, rg.data.Splits)
    assert_type(splits.train, rg.data.Dataset)
    assert_type(splits.validation, rg.data.Dataset | None)
    assert_type(splits.test, rg.data.Dataset | None)
    train, test = splits.train, splits.test
    assert test is not None
    ranker = rg.Ranker(model="linear", loss="softmax", epochs=1)
    assert_type(ranker, rg.Ranker)
    assert_type(ranker.fit(train.features, train.labels, qid=train.row_qids), rg.Ranker)
    scores = ranker.predict(test.features, qid=test.row_qids)
    assert_type(scores, NDArray[np.float32])
    found = ranker.feature_importance(test.features, test.labels, qid=test.row_qids, repeats=1)
    assert_type(found, rg.models.FeatureImportance)
    assert_type(found.values, NDArray[np.float64])
    one = ranker.explain(test.features, test.labels, qid=test.row_qids, query=test.qids[0])
    assert_type(one, rg.models.ListExplanation)
    trees = rg.trees.TreeRanker("lightgbm", loss="lambdarank", trees=2)
    assert_type(trees.fit(train.features, train.labels, qid=train.row_qids), rg.trees.TreeRanker)
    assert_type(trees.predict(test.features), NDArray[np.float32])
    result = rg.metrics.evaluate(scores, test.labels, ["nDCG@10", "P@1"], offsets=test.offsets)
    assert_type(result, rg.metrics.Evaluation)
    assert_type(result["nDCG@10"], float)
    batch = rg.data.collate([train[0], train[1]])
    assert_type(batch, rg.data.PaddedBatch)
    assert_type(batch.mask, Tensor)
    assert_type(rg.data.collate([train[0]], layout="flat"), rg.data.FlatBatch)
    return result["nDCG@10"]


def with_a_mistake() -> None:
    """What mypy must find."""
    rg.Ranker(nonsense=3)  # type: ignore[call-arg]


def with_a_wrong_name() -> None:
    """A name that the package does not have."""
    rg.nonsense  # type: ignore[attr-defined]  # noqa: B018
