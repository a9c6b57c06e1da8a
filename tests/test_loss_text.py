"""Losses as text: what is understood, and what is said about the rest."""

import pytest
import torch

from rankgrad import losses
from rankgrad.losses import parse

SCORES, LABELS = torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1.0, 0.0, 2.0]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LambdaLoss@2", losses.lambdaloss(SCORES, LABELS, k=2)),
        ("approx_ndcg:temperature=0.1", losses.approx_ndcg(SCORES, LABELS, temperature=0.1)),
        ("rmse:levels=3", losses.rmse(SCORES, LABELS, levels=3)),
        ("learndcg:learn=none", losses.approx_ndcg(SCORES, LABELS)),
    ],
)
def test_a_text_is_its_loss(text, expected):
    torch.testing.assert_close(parse(text)(SCORES, LABELS), expected)
    assert str(parse(str(parse(text)))) == str(parse(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lamdaloss", "did you mean 'lambdaloss'"),
        ("mse@3", "mse takes none"),
        ("rmse", "loss must say levels: rmse:levels=...; got 'rmse'"),
        ("approx_ndcg:temprature=1", "did you mean 'temperature'"),
        ("approx_ndcg:temperature=-1", "temperature must be above 0"),
        ("lambdaloss@0", "at least 1 after @"),
        ("ranknet:", "name\\[@k\\]"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, told):
    with pytest.raises(ValueError, match=told):
        parse(text)
