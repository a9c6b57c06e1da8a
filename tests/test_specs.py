"""Options given as text: each wrong one is told in a sentence that names it, what it accepts and what it got."""

import time

import pytest
import torch

from rankgrad import losses, metrics, rankers
from rankgrad.data import Steps, registry
from rankgrad.training.optimise import check_optimiser, check_schedule

WRONG = [
    (losses.parse, "softmax:gumbel=x", "gumbel of loss must be a whole number of at least 1; got 'x'"),
    (losses.parse, "softmax:gumbel=2.5", "gumbel of loss must be a whole number of at least 1; got 2.5"),
    (losses.parse, "softmax:gumbel=true", "gumbel of loss must be a whole number of at least 1; got True"),
    (losses.parse, "softmax:gumbel=2000000", "gumbel of loss must be at most 1,000; got 2000000"),
    (losses.parse, "lambdaloss@5:sigma=abc", "sigma of lambdaloss must be a finite number; got 'abc'"),
    (losses.parse, "lambdaloss:sigma=nan", "sigma of lambdaloss must be a finite number; got 'nan'"),
    (losses.parse, "lambdaloss:sigma=1e999", "sigma of lambdaloss must be a finite number; got inf"),
    (losses.parse, "lambdaloss@5:k=3", "loss must give k once; got 'lambdaloss@5' with k=3"),
    (losses.parse, "lambdaloss:metric=5", "metric must be a known name; got '5'"),
    (losses.parse, "softmax@²", "loss must have a whole number of at least 1 after @, at most 2147483647; got"),
    (losses.parse, "lambdaloss@٣", "loss must have a whole number of at least 1 after @, at most 2147483647"),
    (losses.parse, "lambdaloss@" + "9" * 30, "loss must have a whole number of at least 1 after @, at most 2147483647"),
    (losses.parse, "lambdaloss:sigma=" + "-" * 5000 + "1", "loss must be at most 1,000 characters long; got 5,018"),
    (losses.parse, "lambdaloss:sigma=" + "(" * 300, "sigma of lambdaloss must be a finite number; got '((("),
    (losses.parse, "neural_ndcg:sinkhorn_rounds=2.5", "sinkhorn_rounds of neural_ndcg must be a whole number; got 2.5"),
    (losses.parse, "neural_ndcg:sinkhorn_rounds=999999999", "sinkhorn_rounds of neural_ndcg must be at most 10,000"),
    (losses.parse, "neural_ndcg:transposed=5", "transposed of neural_ndcg must be true or false; got 5"),
    (losses.parse, "hinge:margin=true", "margin of hinge must be a finite number; got True"),
    (losses.parse, "xe_ndcg:gamma=x", "gamma of xe_ndcg must be a finite number; got 'x'"),
    (losses.parse, "learndcg:k=x", "k of learndcg must be a whole number or none; got 'x'"),
    (losses.parse, "relaxed:metric=AP,operator=neural_sort,temperature=x", "temperature of neural_sort must be"),
    (losses.parse, "softmax:a\nb=1", r"loss must be printable text on one line; got 'softmax:a\nb=1'"),
    (losses.parse, "neuralloss:path=" + "x" * 400, "path must be a folder with weights.safetensors, or such a file;"),
    (rankers.parse, "mlp:widths=abc", "widths must be a whole number, at least 1; got 'abc'"),
    (rankers.parse, "mlp:widths=99999999999", "widths of mlp must be at most 1,000,000; got 99999999999"),
    (rankers.parse, "mlp:widths=" + "8-" * 200 + "8", "widths of mlp must be at most 100 values; got 201"),
    (rankers.parse, "context_aware:blocks=3000", "blocks of context_aware must be at most 100; got 3000"),
    (metrics.parse, "nDCG(gain=foo)@10", "gain must be one of 'exp', 'linear'; got 'foo'"),
    (metrics.parse, "RBP(persistence='x')", "persistence of RBP must be a finite number; got 'x'"),
    (metrics.parse, "ERR(max_label=1e999)", "max_label of ERR must be a finite number; got inf"),
    (metrics.parse, "AP(threshold=None)", "threshold of AP must be a finite number; got None"),
    (metrics.parse, "nDCG@" + "9" * 30, "k must be at most 2,147,483,647; got 999999999999999999999999999999"),
    (metrics.parse, "nDCG@" + "9" * 5000, "metric must be at most 1,000 characters long; got 5,005"),
    (metrics.parse, "nDCG@²", "metric must read name, name@k or name(option=value)@k; got 'nDCG@²'"),
    (metrics.parse, "nDCG(gain=" + "-" * 90000 + "1)", "metric must be at most 1,000 characters long; got 90,012"),
    (metrics.parse, "nDCG(gain=1if 1 else 2)", "metric must have options of the form (name=value, ...)"),
    (metrics.parse, "nDCG(gain='exp', gain='linear')", "metric must give gain once; got"),
    (check_optimiser, "adam:betas=x", "betas of adam must be 2 numbers joined by -; got 'x'"),
    (check_optimiser, "adam:betas=0.9", "betas of adam must be 2 numbers joined by -; got 0.9"),
    (check_optimiser, "adam:betas=0.9-0.99-0.999", "betas of adam must be 2 numbers joined by -; got [0.9,"),
    (check_optimiser, "adam:amsgrad=x", "amsgrad of adam must be true or false; got 'x'"),
    (check_optimiser, "sgd:dampening=x", "dampening of sgd must be a finite number; got 'x'"),
    (check_optimiser, "sgd:momentum=-1", "optimiser must have options that sgd takes; got 'sgd:momentum=-1': Invalid"),
    (check_optimiser, "adam@5", "optimiser must be written name[:key=value,...], without a cutoff; got 'adam@5'"),
    (check_schedule, "step:every=²", "every of step must be a number from 0.001 to 1,000,000; got '²'"),
    (check_schedule, "step:every=1e999", "every of step must be a number from 0.001 to 1,000,000; got inf"),
    (check_schedule, "step:factor=10", "factor of step must be a number from 0 to 1; got 10"),
    (check_schedule, "plateau:patience=0.5", "patience of plateau must be a whole number; got 0.5"),
    (check_schedule, "cosine@3", "schedule must be written name[:key=value,...], without a cutoff; got 'cosine@3'"),
    (Steps.parse, "clip=1_0", "limit must be a number above 0; got '1_0'"),
    (Steps.parse, "clip=1e999", "limit must be a number above 0; got inf"),
    (Steps.parse, "none=3", "preprocessing must be one of"),
    (Steps.parse, "log1p," * 150, "preprocessing must have at most 100 steps; got 150"),
    (Steps.parse, None, "preprocessing must be text; got NoneType"),
    (registry.check, "synthetic:lists='a'", "lists of synthetic must be a whole number; got 'a'"),
    (registry.check, "synthetic:lists=-1", "lists must be at least 1; got -1"),
    (registry.check, "synthetic:seed=-1", "seed must be at least 0; got -1"),
    (registry.check, "synthetic:lists=1000000,features=1000000", "lists must fit the memory of"),
    (registry.check, "web30k-shape:scale=1e308", "lists must fit the memory of"),
    (registry.check, "synthetic:lists=" + "(" * 300, "lists of synthetic must be a whole number; got '((("),
    (registry.check, "x" * 3000, "name must be a known data set or a folder with train and test files; got 'xxx"),
    (registry.check, "-" * 150_000, "name must be at most 4,096 characters long; got 150,000: '---"),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("read", "text", "told"), WRONG, ids=[str(text)[:40] for _, text, _ in WRONG])
def test_what_is_wrong_is_one_sentence(read, text, told):
    begun = time.perf_counter()
    with pytest.raises(ValueError, match="must") as caught:
        read(text)
    assert str(caught.value).startswith(told)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500
    assert time.perf_counter() - begun < 1


def test_a_number_where_text_is_asked_for_is_text():
    with pytest.raises(ValueError, match=r"scheme must be one of 'ndcg1', .*; got '5'"):
        losses.parse("lambdaloss:scheme=5")


def test_words_need_no_quotes():
    assert metrics.parse("nDCG(gain=linear)@5") == metrics.nDCG(gain="linear") @ 5
    assert metrics.parse('ERR(max_label=2, ties="expected")').options == {"max_label": 2, "ties": "expected"}
    assert str(losses.parse("lambdaloss:scheme='ndcg1'")) == "lambdaloss:scheme=ndcg1"


def test_options_that_are_right_pass():
    assert check_optimiser("adam:betas=0.5-0.9,eps=1e-6,amsgrad=true")[1] == {
        "betas": (0.5, 0.9), "eps": 1e-6, "amsgrad": True,
    }  # fmt: skip
    assert check_schedule("step:every=0.5,factor=0") == ("step", {"every": 0.5, "factor": 0})
    loss = losses.parse("softmax:gumbel=3")
    assert torch.isfinite(loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])))
    registry.check("synthetic:lists=30,mean_length=5")
    registry.check("web30k-shape:scale=0.01,seed=3")
