"""Metrics of padded lists never wait for the device: they run on tensors without values."""

import inspect

import pytest
import torch

from rankgrad import metrics

FUNCTIONS = ("ndcg", "dcg", "rr", "ap", "precision", "recall", "success", "err", "rbp", "arp", "opa")


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("ties", ["stable", "expected", "trec"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_metrics_run_without_values(name, ties, k):
    scores = torch.empty(4, 7, device="meta")
    labels, mask = scores.long(), scores.bool()
    metric = getattr(metrics, name)
    for empty in ("zero", "one", "skip"):
        assert metric(scores, labels, mask=mask, k=k, ties=ties, empty=empty, reduction="none").shape == (4,)
        assert metric(scores, labels, mask=mask, k=k, ties=ties, empty=empty).shape == ()


def test_every_metric_is_here():
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert set(FUNCTIONS) == {
        name for name in functions if "ties" in inspect.signature(getattr(metrics, name)).parameters
    }
