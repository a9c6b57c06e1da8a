"""The typed options of the kernels: options that losses build, numbers of the operator's schema, errors."""

import inspect
from dataclasses import FrozenInstanceError
from enum import IntEnum
from functools import partial

import numpy as np
import pytest
import torch
from every_loss import OPTIONS as EVERY_LOSS

import rankgrad as rg
from rankgrad import losses
from rankgrad.kernels import op
from rankgrad.kernels.options import (
    OPTIONS,
    ApproxOptions,
    Pairs,
    PairwiseOptions,
    ParamForm,
    Ties,
)
from rankgrad.losses.traits import traits_of

SCORES, LABELS = torch.tensor([[0.3, -1.0, 2.0, 0.5]]), torch.tensor([[1.0, 0.0, 2.0, 0.0]])


@pytest.fixture
def calls(monkeypatch):
    """Record the arguments of the CPU's operator: the name of a kernel, and its options."""
    seen, run = [], op.on_cpu

    def watched(name, *arguments):
        seen.append((name, arguments[-2]))
        return run(name, *arguments)

    monkeypatch.setattr(op, "on_cpu", watched)
    return seen


def members(kind):
    """Return values of a field's type, some of them different from any default."""
    return {float: (0.0, 2.5, -1e30), int: (0, 7), bool: (False, True)}.get(kind) or tuple(kind)


@pytest.mark.parametrize(("discount", "form"), [("log", ParamForm.LEARNED), ("curved", ParamForm.LEARNED_CURVED)])
def test_learndcg_says_how_to_read_its_parameters(discount, form, calls):
    losses.LearnDCG(discount=discount, k=2, beta=3.0)(SCORES, LABELS)
    assert calls == [("learndcg", ApproxOptions(2, 3.0, form=form))]


def test_every_loss_tells_its_kernel_settled_options(calls):
    """Test also the other options of the tests' list of losses."""
    assert set(OPTIONS) == set(op.FAMILIES.values())
    fused = set()
    for loss, cases in EVERY_LOSS.items():
        before = len(calls)
        for given in cases:
            made = getattr(losses, loss)
            made(**given)(SCORES, LABELS) if inspect.isclass(made) else made(SCORES, LABELS, **given)
        fused |= {loss.lower()} if len(calls) > before else set()
    assert fused == op.FUSED
    assert {name for name, _ in calls} == set(op.FAMILIES)
    for name, options in calls:
        assert type(options) is OPTIONS[op.FAMILIES[name]]
        assert options.exact()
        assert type(options).of(options.flat()) == options


@pytest.mark.parametrize("family", OPTIONS.values())
def test_round_trip(family):
    defaults = family()
    assert family.of(defaults.flat()) == defaults
    for name, kind in zip(family.names, family.kinds, strict=True):
        for value in members(kind):
            options = family(**{name: value})
            numbers = options.flat()
            assert all(type(number) is float for number in numbers)
            found = family.of([*numbers])  # a list, as the schema has it
            assert found == options
            assert type(getattr(found, name)) is kind


@pytest.mark.parametrize("family", OPTIONS.values())
def test_wrong_types_are_refused_when_built(family):
    for name, kind in zip(family.names, family.kinds, strict=True):
        wrong = ["a", None, [1.0]] + ([1.5] if kind is int else [0, 1.0] if kind is not float else [])
        if issubclass(kind, IntEnum):
            wrong += [False, *(other for other in (Pairs.ANY, Ties.POSITION) if not isinstance(other, kind))]
        for value in wrong:
            with pytest.raises(TypeError, match=rf"^{name} must be .*; got"):
                family(**{name: value})
    with pytest.raises(FrozenInstanceError):
        family().k = 3


@pytest.mark.parametrize("family", OPTIONS.values())
def test_numbers_of_another_family_are_refused(family):
    with pytest.raises(ValueError, match=rf"^{family.__name__} must have {len(family.kinds)} numbers; got 1$"):
        family.of([1.0])


def test_unknown_choices_are_refused():
    numbers = [*PairwiseOptions().flat()]
    numbers[PairwiseOptions.names.index("scheme")] = 9.0
    with pytest.raises(ValueError, match=r"9.0 is not a valid Scheme"):
        PairwiseOptions.of(numbers)


@pytest.mark.parametrize("number", [2, np.float32(2.0), np.int64(2), torch.tensor(2.0), torch.tensor([2.0])])
def test_numbers_of_other_types_are_settled(number):
    options = PairwiseOptions(sigma=number)
    assert options.sigma is number
    assert not options.exact()
    assert options.settled() == PairwiseOptions(sigma=2.0)
    assert options.settled().exact()
    assert PairwiseOptions(k=np.int64(5)).settled() == PairwiseOptions(k=5)


def test_a_tensor_is_read_at_each_call():
    margin = torch.tensor(0.5)
    found = [float(losses.hinge(SCORES, LABELS, margin=margin.fill_(value))) for value in (0.5, 3.0)]
    assert found == [float(losses.hinge(SCORES, LABELS, margin=value)) for value in (0.5, 3.0)]
    assert found[0] != found[1]


def test_options_that_change_compile_whole():
    """From the second call on, options are symbols; some are integers instead of fractions."""

    def call(scores, labels, k, mu):
        return losses.lambdaloss(scores, labels, k=k, scheme="ndcg2pp", mu=mu)

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    for k, mu in ((1, 1.0), (2, 2.5), (3, 4), (2, 7)):
        torch.testing.assert_close(compiled(SCORES, LABELS, k, mu), call(SCORES, LABELS, k, mu))


def test_curvatures_are_told_what_the_losses_tell(calls):
    for name, given in (
        ("ranknet", {"k": 3, "pairs": "both", "sigma": 0.5}),
        ("lambdarank", {"metric": "nDCG(gain='linear')@4"}),
        ("lambdaloss", {"k": 2}),
        ("lambdaloss", {"scheme": "arp2", "mu": 1.0}),
    ):
        loss = partial(getattr(losses, name), **given)
        loss(SCORES, LABELS)
        assert traits_of(loss).pairs == (name, calls[-1][1])


def numeric_options():
    """Losses with a kernel, and their options that are numbers."""
    for name, choices in EVERY_LOSS.items():
        loss = getattr(losses, name)
        if name not in op.FUSED:
            continue
        for option, parameter in inspect.signature(loss).parameters.items():
            if isinstance(parameter.default, float):
                yield name, option, choices[0]


@pytest.mark.parametrize(
    ("name", "option", "others"), [pytest.param(*each, id=".".join(each[:2])) for each in numeric_options()]
)
def test_a_negative_number_is_an_error_or_computed_as_without_a_kernel(name, option, others):
    loss = getattr(losses, name)

    def value(backend):
        with rg.backend(backend):
            return loss(SCORES, LABELS, **{**others, option: -1.0})

    try:
        expected = value("plain")
    except ValueError:
        with pytest.raises(ValueError, match=option):
            value("auto")
        return
    torch.testing.assert_close(value("auto"), expected)


def test_there_are_numeric_options():
    assert {("ranknet", "sigma"), ("approx_ndcg", "temperature")} <= {each[:2] for each in numeric_options()}
