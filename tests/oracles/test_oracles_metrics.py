"""Numbers recorded from the tests of Rax and TensorFlow Ranking, translated into our calls.

Every recorded case that is about an exact metric is either translated and compared, or named in `NOT_EXPRESSIBLE` with
the reason; cases of losses, lambda weights and relaxed metrics belong to the tests of the losses.
"""

import json
import math

import numpy as np
import pytest
import torch
from paths import SHARED

from rankgrad import metrics
from rankgrad.metrics.sort_order import ranks

ORACLES = SHARED / "oracles"

NO_LIST_WEIGHT = "asks for TF-Ranking's weight of a list; our metrics take no weights and return none"
NO_PAIR_COUNT = (
    "asks for the number of ordered pairs, which TF-Ranking returns as the weight of a list; ours return none"
)
NO_PAIR_WEIGHTS = "weights the pairs; our metrics take no weights, and labels cannot stand for them"
NO_ALPHA_DCG = "alpha-DCG (labels by subtopic, devalued as they repeat) is a diversity metric; we have none"
NO_BPREF = "bpref compares with judged documents only; we do not have it"

NOT_EXPRESSIBLE = {
    **dict.fromkeys([f"tfr-{i}" for i in (177, 178, 179, 180, 181, 182, 183, 185, 186, 187, 188, 189)], NO_ALPHA_DCG),
    **dict.fromkeys([f"tfr-{i}" for i in (193, 194, 195, 196, 198, 199, 200, 204, 205)], NO_BPREF),
    **dict.fromkeys([f"tfr-{i}" for i in (190, 191, 192, 202, 203, 221, 223, 225, 236, 249, 250, 260)], NO_LIST_WEIGHT),
    **dict.fromkeys([f"tfr-{i}" for i in (261, 262, 276, 277, 279, 306, 319, 320, 321, 331)], NO_LIST_WEIGHT),
    **dict.fromkeys([f"tfr-{i}" for i in (342, 344, 345)], NO_LIST_WEIGHT),
    **dict.fromkeys([f"tfr-{i}" for i in (282, 284, 286, 292, 294)], NO_PAIR_COUNT),
    "tfr-295": NO_PAIR_WEIGHTS,
}

# Theirs, in Rax's spelling and in TF-Ranking's, and ours.
NAMES = dict.fromkeys(["mrr", "MRR"], "rr") | dict.fromkeys(["ap", "MeanAveragePrecision"], "ap")
NAMES |= dict.fromkeys(["recall", "Recall"], "recall") | dict.fromkeys(["precision", "Precision"], "precision")
NAMES |= dict.fromkeys(["dcg", "DCG"], "dcg") | dict.fromkeys(["ndcg", "NDCG"], "ndcg")
NAMES |= dict.fromkeys(["opa", "OPA"], "opa") | {"ARP": "arp", "Hits": "success"}
# What is not a metric, by words in the recorded function's name.
OTHERS = ("loss", "lambdaweight", "t12n", "approx", "softmax", "logcumsumexp", "normalize", "neural_sort", "gumbel")


def load(name):
    path = ORACLES / name
    return json.loads(path.read_text()) if path.exists() else {}


def is_metric(function):
    return not any(word in function.lower() for word in OTHERS)


def recorded():
    """Every recorded case about a metric, by id."""
    rax, tfr = load("rax.json"), load("tfr.json")
    cases = {case["id"]: case for case in rax.get("cases", []) if is_metric(case["fn"])}
    shared = next((case for case in rax.get("generated", []) if case["id"] == "shared-inputs"), {})
    for case in rax.get("generated", []):
        if "fn" in case and is_metric(case["fn"]):
            inputs = {key: shared[key] for key in ("scores", "labels", *case["uses"])}
            cases[case["id"]] = {"rtol": 1e-9} | case | inputs
    for case in rax.get("equivalences", []):
        if is_metric(case["lhs"]["fn"]):
            for side in ("lhs", "rhs"):
                cases[f"{case['id']}-{side}"] = case[side] | {"expected": case["both_equal"], "rtol": case["rtol"]}
    for number, case in enumerate(rax.get("doctests", [])):
        if is_metric(case["fn"]):
            cases[f"raxdoc-{number}"] = {"atol": 10.0 ** -case["decimals"]} | case
    return cases | {case["id"]: case for case in tfr.get("cases", []) if is_metric(case["fn"])}


CASES = recorded()
pytestmark = pytest.mark.skipif(not CASES, reason="the recorded numbers, ../shared/oracles, are not here")


def numbers(values):
    """Nested lists as float64, where "-inf" is text."""
    return np.array(values, dtype=object).astype(np.float64)


def measure(fn, scores, labels, mask, k, **options):
    """Our value of each list; as theirs do, precision divides by the length of a list that is shorter than k."""
    mask = torch.as_tensor(mask)
    name = NAMES[fn]
    if name != "precision" or k is None:
        return getattr(metrics, name)(scores, labels, mask=mask, k=k, reduction="none", **options)
    lists = zip(scores, labels, mask, strict=True)
    return torch.stack([metrics.precision(s, y, mask=m, k=max(1, min(k, int(m.sum())))) for s, y, m in lists])


def by_segment(case, values):
    """The lists of a Rax case, padded: rows, cut further by segment.

    Returns the positions they come from, whether there is one, and whether the document there is not masked.
    """
    shape = np.shape(values)
    rows = np.arange(math.prod(shape)).reshape(-1, shape[-1])
    segments = np.array(case.get("segments", np.zeros(shape))).reshape(rows.shape)
    lists = [row[ids == s] for row, ids in zip(rows, segments, strict=True) for s in dict.fromkeys(ids.tolist())]
    places = np.full((len(lists), max(map(len, lists))), -1)
    for row, members in enumerate(lists):
        places[row, : len(members)] = members
    where = np.array(case.get("where", np.ones(shape)), dtype=bool).ravel()
    return places, places >= 0, (places >= 0) & where[places]


def check_rax_metric(case):
    fn, k = case["fn"].removesuffix("_metric"), case.get("params", {}).get("topn")
    places, _, mask = by_segment(case, case["scores"])
    scores, labels = (torch.tensor(numbers(case[key]).ravel()[places]) for key in ("scores", "labels"))
    options = {}
    if "weights" in case:
        # Rax multiplies gains by weights: labels that are the weighted gains, with linear gain.
        labels = (2**labels - 1) * torch.tensor(numbers(case["weights"]).ravel()[places])
        options = {"gain": "linear"}
    if fn == "opa":
        # Rax counts tied pairs as wrong, which they are in the stable order when labels rise with the position.
        rising = labels.argsort(dim=-1, stable=True)
        scores, labels, mask = (t.gather(-1, rising) for t in (scores, labels, torch.as_tensor(mask)))
    if bool((scores == -math.inf).any()):
        values = not_retrieved(fn, scores[0].tolist(), labels[0].tolist(), k)
    else:
        values = measure(fn, scores, labels, mask, k, **options)
    # Rax leaves lists out that are all padding; there an empty mean is 0.
    values = values[torch.as_tensor(mask).any(-1)]
    if case.get("per_list"):
        return values
    return values.sum() if case.get("reduce") == "sum" else values.mean() if len(values) else torch.tensor(0.0)


def not_retrieved(fn, scores, labels, k):
    """A score of -inf is Rax's way to say that a document is not in the run."""
    run = {str(i): score for i, score in enumerate(scores) if score > -math.inf}
    qrels = {str(i): int(label) for i, label in enumerate(labels)}
    metric = metrics.parse_metric(fn) if k is None else metrics.parse_metric(fn) @ k
    return torch.tensor([metrics.measure_run({"q": run}, {"q": qrels}, metric, bootstrap=0)[str(metric)]])


def check_rax_ranks(case):
    axis, n = (case.get("params", {}).get(key, default) for key, default in (("axis", -1), ("n", None)))
    x = np.moveaxis(numbers(case["x"]), axis, -1)
    places, real, mask = by_segment(case, x)
    found = ranks(torch.tensor(x.ravel()[places]), torch.tensor(mask)).numpy()
    if case["fn"] == "cutoff":
        found = mask if n is None else (found <= n) & mask
    result = np.zeros(x.size)
    result[places[real]] = found[real]
    return np.moveaxis(result.reshape(x.shape), -1, axis)


def tfr_lists(case):
    """Labels, scores and mask, padded; TF-Ranking's padding is a negative label, or a mask, or raggedness."""
    labels = case["labels"]
    if isinstance(labels, dict):
        rows, scores = labels["ragged"], case["scores"]["ragged"]
        width = max(map(len, rows))
        empty = np.zeros_like(numbers(rows[0][0])).tolist()
        mask = np.array([[True] * len(row) + [False] * (width - len(row)) for row in rows])
        labels = numbers([row + [empty] * (width - len(row)) for row in rows])
        scores = numbers([row + [0.0] * (width - len(row)) for row in scores])
    else:
        labels, scores = numbers(labels), numbers(case["scores"])
        given = case.get("mask")
        mask = (labels if labels.ndim == 2 else labels.min(-1)) >= 0 if given is None else np.array(given)
    return torch.tensor(scores), torch.tensor(labels), torch.tensor(mask)


def table_function(described):
    """A gain or discount, described by its values at 1 to 4; a gain is needed at 0 as well, and these are straight."""
    values = numbers([described["fn_table"][str(i)] for i in (1, 2, 3, 4)])
    values = torch.tensor([2 * values[0] - values[1], *values])
    return lambda x: values[x.long()]


def check_tfr_metric(case):
    fn, params = case["fn"].removesuffix("Metric"), case.get("params") or {}
    scores, labels, mask = tfr_lists(case)
    k, options = params.get("topn"), {}
    if "gain_fn" in params:
        options["gain"] = table_function(params["gain_fn"])
    if "rank_discount_fn" in params:
        weight = table_function(params["rank_discount_fn"])
        options["discount"] = lambda rank: 1 / weight(rank)  # theirs multiplies
    if "weights" in case:
        weights = torch.tensor(numbers(case["weights"])).expand(labels.shape)
    else:
        weights = torch.ones_like(labels)
    if fn == "PWA":
        # Position weighted average: a DCG with the rank as discount, divided by that of labels that are all 1.
        parts = [
            metrics.dcg(scores, y, mask=mask, k=k, gain="linear", discount=lambda rank: rank, reduction="none")
            for y in (labels * weights, weights)
        ]
        return (parts[0] / parts[1])[:, None]
    if fn == "PrecisionIA":
        # Intent aware: the mean over the subtopics that have a relevant document, each a list of its own.
        each = [measure("Precision", scores, y, mask, k) for y in labels.unbind(-1)]
        judged = torch.stack([(y * mask).sum(-1) > 0 for y in labels.unbind(-1)])
        return ((torch.stack(each) * judged).sum(0) / judged.sum(0).clamp(min=1))[:, None]
    assert "weights" not in case or fn == "ARP", "no rule for these weights"
    return measure(fn, scores, labels * weights, mask, k, **options)[:, None]


def check_tfr_function(case):
    labels = torch.tensor(numbers(case["labels"]))
    n = labels.shape[-1]
    if case["fn"] == "inverse_max_dcg":
        best = metrics.dcg(labels, labels, k=case["topn"], discount=torch.log1p, reduction="none")
        return torch.where(best > 0, 1 / best, 0.0)[:, None]
    # Rank i holds the document with a 1 in row i of the permutation; without one, documents are in ranked order.
    order = torch.tensor(case["perm_mat"]).argmax(-1) if "perm_mat" in case else torch.arange(n).expand(labels.shape)
    scores = torch.zeros_like(labels).scatter(-1, order, -torch.arange(n).double().expand(labels.shape))
    return metrics.ndcg(scores, labels, reduction="none")[:, None]


def translate(case):
    if case["fn"].endswith("_metric"):
        return check_rax_metric(case)
    if case["fn"] in ("ranks", "cutoff"):
        return check_rax_ranks(case)
    return check_tfr_metric(case) if case["fn"].endswith("Metric") else check_tfr_function(case)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_EXPRESSIBLE])
def test_recorded_number(name):
    case = CASES[name]
    tolerance = case.get("tol") or {"rtol": case.get("rtol", 0.0), "atol": case.get("atol", 1e-12)}
    np.testing.assert_allclose(translate(case), numbers(case["expected"]), **tolerance)


def test_no_case_is_dropped():
    """Each is in exactly one of the two; what is left out is a weight, or a metric that we do not have."""
    assert set(NOT_EXPRESSIBLE) <= set(CASES)
    assert len(CASES) - len(NOT_EXPRESSIBLE) >= 200
    for name in NOT_EXPRESSIBLE:
        case = CASES[name]
        unknown = case["fn"] in ("AlphaDCGMetric", "BPrefMetric")
        assert unknown or case.get("output") == "per_list_weight" or "weights" in case, name
    weights = [name for name, case in CASES.items() if case.get("output") == "per_list_weight"]
    assert set(weights) <= set(NOT_EXPRESSIBLE)


def test_every_recorded_function_is_known():
    """A name that is neither a metric of ours nor another test's business would be dropped without a word."""
    known = {f"{name}_metric" for name in NAMES} | {f"{name}Metric" for name in NAMES}
    known |= {"ranks", "cutoff", "ndcg", "inverse_max_dcg", "PWAMetric", "PrecisionIAMetric"}
    known |= {"AlphaDCGMetric", "BPrefMetric"}
    assert {case["fn"] for case in CASES.values()} <= known
