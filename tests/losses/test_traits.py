"""What a loss says about itself is true: signal and gain. Tests of promises and of trees use the other traits."""

import pytest
import torch
from every_loss import GUMBEL, NAMED, RELAXED, each_loss

from rankgrad import losses
from rankgrad.losses import gumbel, parse_loss
from rankgrad.losses.traits import Traits, traits_of

SCORES, LABELS = torch.tensor([[0.3, 1.2, -0.4, 0.8]], dtype=torch.float64), torch.tensor([[1.0, 0.0, 2.0, 1.0]])


@each_loss([*NAMED, *GUMBEL, *RELAXED])
def test_signal_is_that_of_the_plain_loops(loss):
    assert traits_of(loss.make()).signal == loss.signal


# Losses in which labels 2 and 1 differ more than labels 1 and 0, although they have no gain 2^y - 1.
NOT_GAINS = ("softmax", "listnet", "poly1_softmax", "rank_cosine", "mse", "rmse", "margin_mse")


# Values of the labels also count in these schemes, with a threshold and in a network of five grades.
ORDER_OR_GAIN = [
    case
    for case in NAMED
    if not (case.extras or case.threshold or case.name in NOT_GAINS or "arp" in case.id or "published" in case.id)
]


@each_loss(ORDER_OR_GAIN)
def test_the_gain_is_told_by_losses_that_depend_on_more_than_the_order_of_the_labels(loss):
    near, far = (loss.make()(SCORES, labels) for labels in (LABELS, torch.where(LABELS == 2, 3.0, LABELS)))
    assert torch.allclose(near, far) != traits_of(loss.make()).gain


@pytest.mark.parametrize(
    ("text", "gain", "divides"),
    [
        ("0.5*listnet+0.5*xe_ndcg", True, True),
        ("0.5*listnet+0.5*bce", False, False),
        ("approx_ndcg:gumbel=2", True, False),
        ("lambdaloss:scheme=arp1", False, False),
        ("lambdarank:metric=AP", False, False),
        ("relaxed:metric=nDCG(gain=linear),operator=neural_sort", False, False),
        ("relaxed:metric=ERR,operator=neural_sort", True, False),
        ("neuralloss:form=published", False, False),
    ],
)
def test_traits_depend_on_options_and_parts(text, gain, divides):
    found = parse_loss(text).traits
    assert (found.gain, found.divides) == (gain, divides)


def test_second_derivatives_are_not_those_of_a_part():
    assert traits_of(losses.softmax).curvature
    for loss in (gumbel(losses.softmax), parse_loss("1*softmax+1*bce"), lambda s, y, **lists: losses.softmax(s, y)):
        assert traits_of(loss).curvature is None
    assert losses.as_loss(lambda scores, labels: (scores - labels).sum()).traits == Traits()
