"""The training loop of docs/own-loop.md: the lines of the page run, and train as well as the estimator."""

import re

import numpy as np
import pytest
import torch
from paths import ROOT, SHARED

from rankgrad.data import load, open_cache, synthetic, write_cache
from rankgrad.estimators.neural import Ranker
from rankgrad.metrics import ndcg


@pytest.fixture(scope="module")
def page():
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own-loop.md").read_text(encoding="utf-8"), re.DOTALL)


def run(lines):
    """The function that the lines of the page define."""
    names = {}
    exec(compile(lines, "docs/own-loop.md", "exec"), names)
    return names["fit"]


@pytest.fixture(scope="module")
def fit(page):
    return run(page[0])


def by_estimator(data, seed, **settings):
    """The best validation metric of the estimator with the same settings."""
    train, part = data.train, data.validation
    ranker = Ranker(seed=seed, device="cpu", **settings)
    ranker.fit(
        train.features, train.labels, qid=train.row_qids, eval_set=(part.features, part.labels), eval_qid=part.row_qids
    )
    return max(row["nDCG@10"] for row in ranker.history_)


def assert_within_seed_noise(loop, estimator):
    """The difference of the means is below three times its standard error."""
    print(*(f"{np.mean(each):.4f} ± {np.std(each, ddof=1):.4f}" for each in (loop, estimator)))
    error = np.sqrt(np.var(loop, ddof=1) / len(loop) + np.var(estimator, ddof=1) / len(estimator))
    assert abs(np.mean(loop) - np.mean(estimator)) < 3 * error


def test_the_loop_has_twenty_lines(page):
    body = page[0].partition("def fit")[2].strip().splitlines()[1:]
    assert len(body) == 20


def test_the_loop_trains_as_well_as_the_estimator(fit):
    data = synthetic(150, features=10, mean_length=8, seed=0)
    some = {"epochs": 8, "patience": 5}
    random = np.random.default_rng(0).normal(size=len(data.validation.labels))
    untrained = float(ndcg(random, data.validation.labels, offsets=data.validation.offsets, k=10))
    loop = [fit(data.train, data.validation, **some, seed=seed)[1] for seed in range(4)]
    estimator = [by_estimator(data, seed, **some) for seed in range(4)]
    assert_within_seed_noise(loop, estimator)
    assert min(loop) > untrained + 0.05


def test_the_loop_returns_the_best_epoch_also_from_a_cache(fit, tmp_path):
    data = synthetic(40, features=10, mean_length=8, seed=1)
    write_cache(data.train, tmp_path / "cache")
    network, best = fit(open_cache(tmp_path / "cache"), data.validation, epochs=4)
    again, same = fit(data.train, data.validation, epochs=4)
    assert best == same
    for name, weights in network.state_dict().items():
        torch.testing.assert_close(weights, again.state_dict()[name], rtol=0, atol=0)


def test_padded_batches_give_the_same_result(page, fit):
    lines = page[0].replace("offsets=batch.offsets", "mask=batch.mask")
    lines = lines.replace('partial(rg.data.collate, layout="flat")', "rg.data.collate")
    assert lines.count("mask=") == 1
    data = synthetic(40, features=10, mean_length=8, seed=1)
    (network, best), (other, same) = (each(data.train, data.validation, epochs=4) for each in (fit, run(lines)))
    assert best == pytest.approx(same, abs=1e-3)
    torch.testing.assert_close(network[1].weight, other[1].weight, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_the_loop_trains_as_well_as_the_estimator_on_mq2008(fit):
    if not (SHARED / "data" / "MQ2008").is_dir():
        pytest.skip("MQ2008 is not in ../shared/data")
    data = load("MQ2008", fold=1, root=SHARED / "data")
    loop = [fit(data.train, data.validation, seed=seed)[1] for seed in range(5)]
    assert_within_seed_noise(loop, [by_estimator(data, seed) for seed in range(5)])
    network, best = fit(data.train, data.validation, epochs=5)
    assert best > 0.5
    assert network(torch.zeros(3, 46)).shape == (3,)
