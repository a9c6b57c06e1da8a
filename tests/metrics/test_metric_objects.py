"""Metrics as values: making, printing, parsing, comparing; `evaluate` and its intervals."""

import json
import math
import pickle
import subprocess
import sys
import warnings
from inspect import signature

import numpy as np
import pytest
import references_metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_metrics import ragged

from rankgrad import metrics
from rankgrad.metrics import AP, ARP, DCG, ERR, OPA, RBP, RR, Metric, P, R, Success, nDCG, parse_metric
from rankgrad.metrics.metric import KINDS

ALL = [nDCG, DCG, RR, AP, P, R, Success, ERR, RBP, ARP, OPA]

OPTIONS = {
    "gain": st.sampled_from(["exp", "linear"]),
    "discount": st.just("log2"),
    "threshold": st.one_of(st.integers(0, 3), st.floats(0, 3)),
    "first": st.sampled_from(["relevant", "best"]),
    "max_label": st.integers(1, 5),
    "persistence": st.floats(0, 0.99),
    "empty": st.sampled_from(["skip", "zero", "one"]),
    "ties": st.sampled_from(["stable", "expected", "trec"]),
}


@st.composite
def any_metric(draw):
    metric = draw(st.sampled_from(ALL))
    chosen = draw(st.lists(st.sampled_from(sorted(metric.defaults)), unique=True))
    metric = metric(**{option: draw(OPTIONS[option]) for option in chosen})
    k = draw(st.one_of(st.none(), st.integers(1, 1000)))
    return metric if k is None else metric @ k


@settings(deadline=None)
@given(metric=any_metric())
def test_text_and_back(metric):
    assert parse_metric(str(metric)) == metric
    assert hash(parse_metric(str(metric))) == hash(metric)
    assert eval(repr(metric), vars(metrics).copy()) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric


@settings(deadline=None)
@given(metric=any_metric())
def test_measures_as_its_function(metric):
    scores, labels, offsets = ragged(seed=8, lists=10, grades=2)
    ids = [f"d{i}" for i in range(len(scores))]
    value = metric.measure(scores, labels, offsets=offsets, ids=ids, reduction="none")
    by_hand = metric.function(
        scores, labels, offsets=offsets, ids=ids, k=metric.k, reduction="none", **(metric.defaults | metric.options)
    )
    torch.testing.assert_close(value, by_hand, equal_nan=True)


def test_fields():
    metric = nDCG(gain="linear", empty="one") @ 5
    assert (metric.name, metric.k, metric.options) == ("nDCG", 5, {"gain": "linear", "empty": "one"})
    assert str(metric) == "nDCG(empty='one', gain='linear')@5"
    assert metric.function is metrics.ndcg
    assert metric(gain="exp") == nDCG(empty="one") @ 5
    assert nDCG(gain="exp", ties="stable") == nDCG
    assert {nDCG @ 10, parse_metric("NDCG@10"), nDCG @ 5} == {nDCG @ 10, nDCG @ 5}
    assert [m for m in ALL if not m.higher_is_better] == [ARP]
    assert {str(metric) for metric in ALL} == set(KINDS)
    functions = {kind.function.__name__ for kind in KINDS.values()}
    assert {*KINDS, *functions} <= set(metrics.__all__)
    assert functions == set(references_metrics.ALL)


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("MRR@10", RR @ 10),
        ("map", AP),
        ("NDCG", nDCG),
        ("Precision @ 5", P @ 5),
        ("recall(threshold=1)@3", R(threshold=1) @ 3),
        (" nDCG( gain = 'linear' )@5 ", nDCG(gain="linear") @ 5),
        ('rr(first="best", empty="one")', RR(first="best", empty="one")),
        ("RR()", RR),
        ("nDCG@5:gain=linear,TIES=trec", nDCG(gain="linear", ties="trec") @ 5),
        ("rbp:persistence=0.5", RBP(persistence=0.5)),
    ],
)
def test_parse(text, metric):
    assert parse_metric(text) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("HR@10", "metric must be a known name; got 'HR'; did you mean 'Success' (1 for a list with a relevant"),
        ("HitRate@10", "metric must be a known name; got 'HitRate'; did you mean 'Success' (1 for a list with a"),
        ("hit_rate@5", "metric must be a known name; got 'hit_rate'; did you mean 'Success' (1 for a list with a"),
        ("nDGC@10", "metric must be a known name; got 'nDGC'; did you mean 'nDCG'?"),
        (
            "bpref@5",
            "metric must be a known name; got 'bpref'; known: nDCG, DCG, RR, AP, P, R, Success, ERR, RBP, ",
        ),
        ("nDCG@", "metric must have an integer from 1 to 2147483647 after @; got 'nDCG@'"),
        ("nDCG@-1", "metric must have an integer from 1 to 2147483647 after @; got 'nDCG@-1'"),
        ("nDCG@0", "metric must have an integer from 1 to 2147483647 after @; got 'nDCG@0'"),
        ("nDCG(gian='exp')", "be an option of nDCG (gain, discount, empty, ties); got 'gian'; did you mean 'gain'?"),
        ("nDCG(threshold=1)", "option must be an option of nDCG (gain, discount, empty, ties); got 'threshold'"),
        ("nDCG(gain='log')", "gain must be one of 'exp', 'linear'; got 'log'"),
        ("AP(ties='none')", "ties must be one of 'stable', 'expected', 'trec'; got 'none'"),
        ("AP(empty='two')", "empty must be one of 'skip', 'zero', 'one'; got 'two'"),
        ("RBP(persistence=2)", "persistence must be at least 0 and below 1; got 2"),
        ("nDCG('linear')", "metric must have options of the form key=value, separated by commas; got"),
        ("nDCG(gain=print('x'))", "gain must be one of 'exp', 'linear'; got \"print('x')\""),
        ("nDCG(gain=)", "metric must have options of the form key=value, separated by commas; got"),
        ("nDCG(**{})", "metric must have options of the form key=value, separated by commas; got"),
    ],
)
def test_parse_errors(text, message):
    with pytest.raises(ValueError, match="must") as caught:
        parse_metric(text)
    assert message in str(caught.value)


def test_construction_errors():
    with pytest.raises(TypeError, match="k must be an integer or None; got 'ten'"):
        nDCG @ "ten"
    with pytest.raises(TypeError, match="metric must be a spec such as 'nDCG@10', or a Metric; got int"):
        parse_metric(10)
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        nDCG @ 0
    with pytest.raises(ValueError, match="k must be at most 2,147,483,647; got 2147483648"):
        nDCG @ 2**31
    with pytest.raises(ValueError, match="metric must be a known name; got 'ndcg'; did you mean 'nDCG'"):
        Metric("ndcg")


def test_a_function_as_an_option():
    def squared(labels):
        return labels**2

    metric = nDCG(gain=squared) @ 3
    assert metric == nDCG(gain=squared) @ 3
    assert "squared" in str(metric)
    assert metric.conventions["gain"].endswith("squared")


def test_evaluate_shares_one_sort_and_equals_each_metric():
    scores, labels, offsets = ragged(seed=9, lists=50, levels=4)
    chosen = [*ALL, nDCG(ties="expected", gain="linear") @ 3, AP(ties="trec", empty="skip") @ 5, "RR(first='best')@2"]
    ids = [f"d{i % 17}" for i in range(len(scores))]
    result = metrics.evaluate(scores, labels, chosen, offsets=offsets, ids=ids)
    assert list(result) == [str(metric) for metric in chosen]
    assert result.lists == 50
    for metric in map(parse_metric, chosen):
        values = metric.measure(scores, labels, offsets=offsets, ids=ids, reduction="none")
        np.testing.assert_allclose(result.values[str(metric)], values)
        assert result[str(metric)] == pytest.approx(float(metric.measure(scores, labels, offsets=offsets, ids=ids)))
        low, high = result.intervals[str(metric)]
        assert low <= result[str(metric)] <= high
    assert result["mrr(first='best')@2"] == result["RR(first='best')@2"]
    assert dict(result) == result.means


def test_intervals_are_those_of_the_percentile_bootstrap():
    from scipy.stats import bootstrap

    generator = np.random.default_rng(0)
    scores, labels = generator.normal(size=(400, 10)), generator.integers(0, 2, size=(400, 10))
    result = metrics.evaluate(scores, labels, ["nDCG@5", "P@3"], bootstrap=4000, confidence=0.9)
    seed = {"rng" if "rng" in signature(bootstrap).parameters else "random_state": 1}  # the name before SciPy 1.15
    for name, values in result.values.items():
        theirs = bootstrap((values,), np.mean, n_resamples=4000, confidence_level=0.9, method="percentile", **seed)
        assert result.intervals[name] == pytest.approx(tuple(theirs.confidence_interval), abs=2e-3)
    again = metrics.evaluate(scores, labels, ["nDCG@5", "P@3"], bootstrap=4000, confidence=0.9)
    assert again.intervals == result.intervals
    other = metrics.evaluate(scores, labels, ["nDCG@5", "P@3"], bootstrap=4000, confidence=0.9, seed=1)
    assert other.intervals != result.intervals
    none = metrics.evaluate(scores, labels, "P@3", bootstrap=0)
    assert none.intervals["P@3"] == (none["P@3"], none["P@3"])


def test_skipped_lists_are_left_out():
    scores, labels = (
        torch.rand(5, 4),
        torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]),
    )
    result = metrics.evaluate(scores, labels, [R(empty="skip"), R])
    assert result["R(empty='skip')"] == 1.0
    assert result["R"] == pytest.approx(0.4)
    assert np.isnan(result.values["R(empty='skip')"]).sum() == 3
    assert metrics.evaluate(scores, labels * 0, R(empty="skip"))["R(empty='skip')"] == 0.0
    assert metrics.evaluate(torch.zeros(0, 3), torch.zeros(0, 3), R)["R"] == 0.0


def test_nan_scores_are_counted():
    with pytest.warns(UserWarning, match="1 scores are NaN") as caught:
        result = metrics.evaluate([[1.0, math.nan]], [[0, 1]], ["RR", "RR(ties='expected')"])
    assert len(caught) == 1
    assert result.nan_scores == 1
    assert "1 scores are NaN; their documents are ranked last" in str(result)
    assert "1 scores are NaN; their documents are ranked last" in result._repr_html_()


def test_json_and_conventions():
    result = metrics.evaluate(
        [[1.0, 2.0], [1.0, 2.0]], [[0, 1], [0, 0]], ["nDCG(empty='skip')@2", "ERR", "RR(first='best')", "OPA"]
    )
    read = json.loads(result.to_json(values=True))
    assert read["metrics"]["nDCG(empty='skip')@2"]["values"] == [1.0, None]
    assert read["metrics"]["nDCG(empty='skip')@2"]["lists"] == 1
    four = {"gain": "exp", "empty": "skip", "ties": "stable", "k": "2"}
    assert read["metrics"]["nDCG(empty='skip')@2"]["conventions"] == four == result.conventions["nDCG(empty='skip')@2"]
    gains = [result.conventions[name]["gain"] for name in result]
    assert gains == ["exp", "(2^y - 1) / 2^4", "best label > 0", "label"]
    assert "values" not in json.loads(result.to_json())["metrics"]["ERR"]


def test_evaluate_errors():
    with pytest.raises(ValueError, match="metrics must contain at least one metric; got none"):
        metrics.evaluate([1.0], [1], [])
    with pytest.raises(ValueError, match="bootstrap must be at least 0; got -1"):
        metrics.evaluate([1.0], [1], "RR", bootstrap=-1)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1; got 95"):
        metrics.evaluate([1.0], [1], "RR", confidence=95)
    with pytest.raises(ValueError, match="labels must be at least 0"):
        metrics.evaluate([1.0], [-1], "nDCG")
    assert metrics.evaluate([[1.0, 0.0]], [[-1, 1]], "P@1")["P@1"] == 0.0


def test_rows_without_query_ids_are_one_list_and_a_warning():
    with pytest.warns(UserWarning, match=r"the 2 rows are evaluated as one list \(give qid, group or offsets"):
        metrics.evaluate([1.0, 0.0], [0, 1], "P@1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.evaluate([[1.0, 0.0]], [[0, 1]], "P@1")
        metrics.evaluate([1.0, 0.0], [0, 1], "P@1", offsets=[0, 2])
        metrics.evaluate([1.0], [1], "P@1")


def test_nested_tensors_are_several_lists_without_a_warning():
    offsets = torch.tensor([0, 2, 5])
    values = (torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0]))
    nested = [torch.nested.nested_tensor_from_jagged(each, offsets) for each in values]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.evaluate(*nested, "P@1").values["P@1"].tolist() == [0.0, 1.0]


def scattered():
    """Rows of seven lists in a random order, their query ids, and the same rows grouped by first appearance."""
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(["q7", "q1", "b", "a", "zz", "0", "10"], [5, 1, 3, 8, 2, 4, 6]))
    scores, labels = rng.integers(0, 6, len(qid)).astype(np.float32), rng.integers(0, 3, len(qid))
    queries = list(dict.fromkeys(qid.tolist()))
    order = np.concatenate([np.flatnonzero(qid == query) for query in queries])
    offsets = np.concatenate([[0], np.cumsum([np.sum(qid == query) for query in queries])])
    return scores, labels, qid, order, offsets, queries


def test_rows_in_any_order_are_grouped_by_query():
    scores, labels, qid, order, offsets, queries = scattered()
    docids = np.random.default_rng(1).permutation(len(qid)).astype(str)
    wanted = ["nDCG@3", "nDCG(ties='trec')", "AP(ties='expected')", lambda scores, labels: labels[scores.argmax()]]
    expected = metrics.evaluate(scores[order], labels[order], wanted, offsets=offsets, ids=docids[order])
    found = metrics.evaluate(scores, labels, wanted, qid=qid, ids=docids)
    assert found.means == expected.means
    assert found.intervals == expected.intervals
    for name in expected:
        np.testing.assert_array_equal(found.values[name], expected.values[name])
    assert found.queries == tuple(queries)
    assert json.loads(found.to_json(values=True))["queries"] == queries
    numbers = torch.tensor([queries.index(query) for query in qid])  # also as a tensor
    again = metrics.evaluate(torch.tensor(scores), torch.tensor(labels), wanted, qid=numbers, ids=docids)
    assert again.means == expected.means
    assert metrics.evaluate([], [], "nDCG", qid=np.zeros(0, int)).lists == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"offsets": [0, 2]}, "at most one of mask, offsets, qid and group must be given; got offsets and qid"),
        ({"mask": [True, True]}, "at most one of mask, offsets, qid and group must be given; got mask and qid"),
        ({"qid": [1]}, r"qid must have one query id per row, \(2,\); got \(1,\)"),
        ({"qid": [1, 1.5]}, "qid must be integers or text; got 1.5 in row 1"),
        ({"ids": ["a"]}, r"ids must have one id per row, \(2,\); got \(1,\)"),
        ({"scores": [[1.0, 0.0]], "labels": [[1, 0]]}, r"scores must have one dimension, \(rows,\), if qid is given"),
    ],
)
def test_wrong_query_ids(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(**{"scores": [1.0, 0.0], "labels": [1, 0], "qid": [1, 1], "metrics": "P@1", **arguments})


def test_importing_metrics_is_light():
    code = (
        "import sys, rankgrad.metrics; print([m for m in ('numba', 'scipy', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_one_long_list_among_many_short_ones_takes_little_memory():
    """Padded to one width they would take 4 billion places."""
    rng = np.random.default_rng(0)
    lengths = rng.permutation(np.r_[200_000, np.ones(10_000, int), np.full(10_000, 3), 0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    scores, labels = rng.integers(0, 50, offsets[-1]).astype(np.float32), rng.integers(0, 3, offsets[-1])
    ids = rng.permutation(offsets[-1]).astype(str)
    chosen = ["nDCG@10", "AP", "RR(ties='trec')", "P(ties='expected')@5"]
    found = metrics.evaluate(scores, labels, chosen, offsets=offsets, ids=ids, bootstrap=0)
    some = np.r_[np.argmax(lengths), rng.integers(0, len(lengths), 200)]
    for place in some:
        rows = slice(offsets[place], offsets[place + 1])
        alone = metrics.evaluate(scores[None, rows], labels[None, rows], chosen, ids=ids[None, rows], bootstrap=0)
        for name in found:
            assert found.values[name][place] == pytest.approx(alone.values[name][0], rel=1e-6)


def test_every_mapping_of_a_result_takes_every_spelling():
    result = metrics.evaluate([[2.0, 1.0, 3.0]], [[2, 0, 1]], ["nDCG@10", "MRR"])
    for mapping in (result.means, result.values, result.intervals, result.conventions):
        assert mapping["MRR"] is mapping["rr"] is mapping[RR] is mapping["RR"]
        assert mapping["ndcg@10"] is mapping["nDCG@10"]
        assert list(mapping) == ["nDCG@10", "RR"]
        with pytest.raises(KeyError, match="P@3"):
            mapping["P@3"]
    assert result["MRR"] == result["RR"]
    again = pickle.loads(pickle.dumps(result))
    assert again.intervals["MRR"] == result.intervals["RR"]
    assert again.to_json() == result.to_json()


def test_rows_are_grouped_by_the_lengths_of_lists():
    scores, labels, wanted = [1.0, 3.0, 2.0, 5.0, 4.0], [1, 0, 0, 0, 1], ["nDCG", "RR(ties='trec')"]
    expected = metrics.evaluate(scores, labels, wanted, offsets=[0, 3, 3, 5], ids=list("abcde"))
    found = metrics.evaluate(scores, labels, wanted, group=[3, 0, 2], ids=list("abcde"))
    assert found.to_json(values=True) == expected.to_json(values=True)
    assert found.values["RR(ties='trec')"].tolist() == [pytest.approx(1 / 3), 0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": [3]}, "group must have the sum 2, the number of rows; got 3"),
        ({"group": [1.5, 0.5]}, "group must be the sizes of the lists, integers of at least 0"),
        ({"qid": [1, 1]}, "at most one of mask, offsets, qid and group must be given; got qid and group"),
        ({"scores": [[1.0, 0.0]], "labels": [[1, 0]]}, r"scores must have one dimension, \(rows,\), if group is given"),
    ],
)
def test_wrong_lengths_of_lists(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(**{"scores": [1.0, 0.0], "labels": [1, 0], "group": [2], "metrics": "P@1", **arguments})


def test_columns_of_a_filtered_frame_are_evaluated():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"s": [9.0, 1.0, 3.0, 2.0], "label": [2, 1, 0, 1], "q": ["x", "a", "b", "a"]}).iloc[1:]
    found = metrics.evaluate(frame["s"], frame["label"], ["nDCG@10", "MRR"], qid=frame["q"])
    assert (found.queries, found["MRR"]) == (("a", "b"), 0.5)
    assert metrics.evaluate(frame["s"], frame["label"], "MRR", group=pd.Series([1, 2], index=[7, 8])).lists == 2


def test_a_cutoff_is_no_option():
    for make in (lambda: nDCG(k=10), lambda: parse_metric("nDCG:k=10"), lambda: parse_metric("nDCG(k=10)")):
        with pytest.raises(ValueError, match=r"k must be written after @, as in nDCG@10; got the option k=10"):
            make()
