"""The pages docs/coming-from: for each row of a table of losses, the other library has the value that the row says.

Rax and TF-Ranking: recorded values. sentence-transformers: the package itself. allRank and PT-Ranking:
their formulas in plain loops, in `allrank` and `ptranking` below.
"""

import json
import re
from math import exp, log, log2, sqrt

import pytest
import torch
from page_blocks import loss_rows, run_page
from paths import SHARED
from tiny_encoder import tiny_encoder

from rankgrad.losses import parse_loss

SCORES = [0.4, 1.7, -0.6, 0.9, 0.1, -1.3]
TIES_AT_RANDOM = ("tfr-038", "tfr-069")  # TF-Ranking broke ties of labels at random there
TIED, UNTIED = [1, 0, 2, 0, 1, 2], [3, 0, 2, 5, 1, 4]


def ours(text, scores, labels):
    """Our value for one list."""
    return float(
        parse_loss(text)(torch.tensor([scores], dtype=torch.float64), torch.tensor([labels]), reduction="none")
    )


def said(third, text, scores, labels):
    """The value that a page says the other library has for one list."""
    pairs = sum(a > b for a in labels for b in labels)
    names = {"L": ours(text, scores, labels), "n": len(labels), "pairs": pairs, "log": log}
    return eval(re.match("`(.*?)`", third)[1], names)


def softplus(gap):
    """-log sigmoid(gap)."""
    return log(1 + exp(-gap))


def ranks(scores):
    return [1 + sum(other > score for other in scores) for score in scores]


def gains(labels):
    """Gains, divided by the ideal DCG."""
    ideal = sum((2**label - 1) / log2(rank + 1) for rank, label in enumerate(sorted(labels, reverse=True), 1))
    return [(2**label - 1) / ideal for label in labels]


def pair_sum(scores, labels, weight):
    every = range(len(labels))
    return sum(weight(i, j) * softplus(scores[i] - scores[j]) for i in every for j in every if labels[i] > labels[j])


def discount(rank):
    return 1 / log2(rank + 1)


def lambda_weights(scores, labels):
    """Weights of a pair in LambdaRank and in NDCGLoss2."""
    r, g = ranks(scores), gains(labels)
    rank = lambda i, j: abs(discount(r[i]) - discount(r[j])) * abs(g[i] - g[j])  # noqa: E731
    gap = lambda i, j: abs(r[i] - r[j])  # noqa: E731
    two = lambda i, j: (discount(gap(i, j)) - discount(gap(i, j) + 1)) * abs(g[i] - g[j])  # noqa: E731
    return rank, two


def list_mle(scores, labels):
    order = sorted(range(len(labels)), key=lambda i: -labels[i])
    return sum(log(sum(exp(scores[j]) for j in order[at:])) - scores[i] for at, i in enumerate(order))


def list_net(scores, labels):
    total, mass = sum(map(exp, scores)), sum(map(exp, labels))
    return -sum(exp(label) / mass * log(exp(score) / total) for score, label in zip(scores, labels, strict=True))


def approx_ndcg(scores, labels):
    every = range(len(labels))
    soft = [1 + sum(1 / (1 + exp(scores[i] - scores[j])) for j in every if j != i) for i in every]
    return -sum(gain * discount(rank) for gain, rank in zip(gains(labels), soft, strict=True))


def neural_ndcg(scores, labels):
    """NeuralSort at temperature 1, scaled until rows and columns sum to 1."""
    n = len(scores)
    away = [sum(abs(a - b) for b in scores) for a in scores]
    soft = [[exp((n + 1 - 2 * i) * s - a) for s, a in zip(scores, away, strict=True)] for i in range(1, n + 1)]
    for _ in range(50):
        soft = [[value / sum(row) for value in row] for row in soft]
        columns = [sum(column) for column in zip(*soft, strict=True)]
        soft = [[value / column for value, column in zip(row, columns, strict=True)] for row in soft]
    g = gains(labels)
    return -sum(discount(r) * sum(p * x for p, x in zip(row, g, strict=True)) for r, row in enumerate(soft, 1))


def rmse(scores, labels):
    pairs = zip(scores, labels, strict=True)
    return sqrt(sum((3 / (1 + exp(-score)) - label) ** 2 for score, label in pairs) / len(labels))


def bce(scores, labels):
    return sum(softplus(s if label else -s) for s, label in zip(scores, labels, strict=True)) / len(labels)


def cosine(scores, labels):
    dot = sum(s * label for s, label in zip(scores, labels, strict=True))
    return dot / sqrt(sum(s * s for s in scores) * sum(label * label for label in labels))


def allrank(name, scores, labels):
    """Value of allRank for one list, by the first words of a row."""
    scheme = re.search('"(.*)_scheme"', name)
    if scheme:
        rank, two = lambda_weights(scores, labels)
        weight = {
            "ndcgLoss2PP": lambda i, j: 10 * two(i, j) + rank(i, j),
            "ndcgLoss2": two,
            "lambdaRank": rank,
            "rankNet": lambda i, j: 1,
            "rankNetWeightedByGTDiff": lambda i, j: abs(labels[i] - labels[j]),
        }[scheme[1]]
        return pair_sum(scores, labels, weight) / log(2)
    if name == "rankNet":
        return pair_sum(scores, labels, lambda i, j: 1) / sum(a > b for a in labels for b in labels)
    functions = {"approxNDCGLoss": approx_ndcg, "listNet": list_net, "listMLE": list_mle, "neuralNDCG": neural_ndcg}
    return {**functions, "pointwise_rmse": rmse, "bce": bce}[name](scores, labels)


def ptranking(name, scores, labels):
    """Value of PT-Ranking for one list: the sum over the pairs i < j with targets 0, 1/2 or 1, and so on."""
    if name in ("RankNet", "LambdaRank"):
        rank, _ = lambda_weights(scores, labels)
        total = 0.0
        for i in range(len(labels)):
            for j in range(i + 1, len(labels)):
                target = 0.5 * (1 + (labels[i] > labels[j]) - (labels[i] < labels[j]))
                gap = scores[i] - scores[j]
                each = target * softplus(gap) + (1 - target) * softplus(-gap)
                total += each * (rank(i, j) if name == "LambdaRank" else 1)
        return total
    if name == "RankCosine":
        return (1 - cosine(scores, labels)) / 0.5
    return {"ListNet": list_net, "ListMLE": list_mle, "ApproxNDCG": approx_ndcg}[name](scores, labels)


LOOPS = [("allrank", allrank, row) for row in loss_rows("allrank")]
LOOPS += [("pt-ranking", ptranking, row) for row in loss_rows("pt-ranking")]


@pytest.mark.parametrize(("page", "loops", "row"), LOOPS, ids=[f"{page}: {row[0]}" for page, _, row in LOOPS])
def test_formulas_in_loops(page, loops, row):
    theirs, text, third = row
    labels = UNTIED if "without ties" in theirs + third else TIED
    tolerance = 0.02 if "Sinkhorn" in third else 1e-6
    value = loops(re.match("`(.*?)`", theirs)[1], SCORES, labels)
    assert said(third, text, SCORES, labels) == pytest.approx(value, rel=tolerance)


def test_pt_ranking_counts_pairs_of_equal_labels():
    assert ptranking("RankNet", SCORES, TIED) > ours("ranknet", SCORES, TIED) + 0.5


def recorded(name):
    path = SHARED / "oracles" / name
    if not path.exists():
        pytest.skip("the recorded numbers, ../shared/oracles, are not here")
    return json.loads(path.read_text())


def counts(unit, values, labels, mask):
    """Sum of the terms, their number and their weight, from our values per list."""
    documents = mask.sum(-1)
    if unit == "documents":
        return (values * documents).sum(), documents.sum(), documents.sum()
    if unit == "pairs":
        both = mask[..., :, None] & mask[..., None, :] & (labels[..., :, None] > labels[..., None, :])
        return values.sum(), both.sum(), both.sum()
    if unit.startswith("lists with"):
        mass = (labels * mask).sum(-1)
        return values.sum(), (mass > 0).sum(), mass.sum()
    return values.sum(), (documents > 0).sum(), (documents > 0).sum()


@pytest.mark.parametrize("row", loss_rows("rax"), ids=lambda row: row[0])
def test_rax(row):
    theirs, text, unit = row
    data, tested = recorded("rax.json"), 0
    shared = next(case for case in data["generated"] if case["id"] == "shared-inputs")
    for case in [*data["cases"], *data["generated"]]:
        used = case.get("uses", [key for key in ("where", "weights", "segments") if key in case])
        if case.get("fn") != theirs.strip("`") or case.get("params") or {"weights", "segments"} & {*used}:
            continue
        if "expected" not in case or case.get("per_list"):
            continue
        source = shared if "uses" in case else case
        scores = torch.atleast_2d(torch.tensor(source["scores"], dtype=torch.float64))
        labels = torch.atleast_2d(torch.tensor(source["labels"], dtype=torch.float64))
        mask = torch.atleast_2d(torch.tensor(source["where"])) if "where" in used else torch.ones_like(labels) > 0
        values = parse_loss(text)(scores, labels, mask=mask, reduction="none")
        total, number, _ = counts(unit, values, labels, mask)
        value = total if case.get("reduce") == "sum" else total / number.clamp(min=1)
        assert float(value) == pytest.approx(case["expected"], rel=1e-5, abs=1e-9), case["id"]
        tested += 1
    assert tested


@pytest.mark.parametrize("row", loss_rows("tf-ranking"), ids=lambda row: row[0])
def test_tf_ranking(row):
    theirs, text, unit = row
    name, tested = re.match("`(.*?)`", theirs)[1].lower(), 0
    for case in recorded("tfr.json")["cases"]:
        params, labels = dict(case.get("params") or {}), case.get("labels")
        reduction = params.pop("reduction", case.get("reduction"))
        usual = 0.1 if case["method"] == "call" else 1.0
        temperature = params.pop("temperature", params.pop("params", {}).get("temperature", usual))
        ragged = params.pop("ragged", False)
        unreduced = case["method"] == "compute_unreduced_loss"
        if case["fn"].replace("_", "").lower() != name or (case["method"] not in ("compute", "call") and not unreduced):
            continue
        if params or "weights" in case or "mask" in case or case["id"] in TIES_AT_RANDOM:
            continue
        rows_of = labels["ragged"] if ragged else labels
        scores = case["scores"]["ragged"] if ragged else case["scores"]
        labels, scores = (_padded(x, fill) for x, fill in ((rows_of, -1.0), (scores, 0.0)))
        mask = labels >= 0
        if ("binary" in theirs and labels.max() > 1) or ("one relevant" in theirs and (labels > 0).sum(-1).max() > 1):
            continue
        spec = text.replace("temperature=0.1", f"temperature={temperature}")  # their default of Keras
        values = parse_loss(spec)(scores, labels, mask=mask, reduction="none")
        total, nonzero, weight = counts(unit, values, labels, mask)
        value, expected = total, case["expected"]
        if unreduced:
            expected = float(torch.tensor(expected).sum())
        elif reduction != "weighted_sum":
            value = total / (weight if reduction == "weighted_mean" else nonzero)
        assert float(value) == pytest.approx(expected, abs=2e-5), case["id"]
        tested += 1
    assert tested


def _padded(lists, fill):
    width = max(map(len, lists))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in lists], dtype=torch.float64)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    package = pytest.importorskip("sentence_transformers")
    folder = tiny_encoder(tmp_path_factory.mktemp("encoder"), words=["wing flow heat shell drag lift"])
    torch.manual_seed(0)
    return package.CrossEncoder(str(folder), num_labels=1, device="cpu").eval()


@pytest.mark.parametrize("row", loss_rows("sentence-transformers"), ids=lambda row: row[0])
def test_sentence_transformers(encoder, row):
    from sentence_transformers.cross_encoder import losses

    theirs, text, third = row
    documents = ["wing flow", "heat", "shell drag lift", "lift", "drag flow heat"]
    labels = [4, 3, 2, 1, 0] if "sorted by label" in theirs else [1, 0, 2, 0, 1]
    loss = getattr(losses, re.match("`(.*?)`", theirs)[1])(encoder)
    with torch.no_grad():
        value = float(loss([["wing"], [documents]], [torch.tensor(labels)]))
        scores = encoder(encoder.preprocess([("wing", document) for document in documents]))["scores"].view(-1)
    assert said(third, text, scores.tolist(), labels) == pytest.approx(value, rel=1e-4)


def test_pages_run(tmp_path):
    _, told = run_page("coming-from/pt-ranking.md", tmp_path)
    assert len(told) == 2
