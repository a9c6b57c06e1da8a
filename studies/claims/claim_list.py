"""Claims of the papers that the recipes `claims-*` test: the texts of `claims.yaml`, and the rows to compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from rankgrad.experiments.tables import published

TEXTS = Path(__file__).parent / "claims.yaml"
SETS = ("MQ2008", "OHSUMED")
NDCG_10_ONE = "nDCG(empty='one')@10"
NDCG_5_SKIP = "nDCG(empty='skip')@5"
NDCG_LINEAR = "nDCG(gain='linear', ties='trec')"
CONTEXT_AWARE = "Context-Aware Ranker"
TANH = "Context-Aware Ranker with tanh"  # name in the leaderboard
NEURAL = "NeuralNDCG"


@dataclass(frozen=True)
class Row:
    """A ranker with a loss on a data set, in a study."""

    study: str
    data: str
    model: str
    loss: str


@dataclass(frozen=True)
class Comparison:
    """Two sides of a claim; each side is a row, or the difference of two rows."""

    better: tuple[Row, ...]  # side that the claim calls better
    worse: tuple[Row, ...]
    metric: str
    names: tuple[str, str]  # names of the two sides in the table
    model: str  # name of the ranker in the table
    paper: float | None = None  # printed difference in points; None if there is none to compare with

    @property
    def data(self) -> str:
        """Name of the data set in the table."""
        return self.better[0].data

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of the comparison."""
        return self.better + self.worse


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a question about it."""

    key: str
    title: str
    paper: str
    place: str  # section or table of the paper
    kind: str  # "better", "similar" or "question"; see `claims.yaml`
    text: str  # the paper's sentence in our words, with its printed numbers
    comparisons: tuple[Comparison, ...]


@cache
def claims() -> tuple[Claim, ...]:
    """Return all claims, in the order of the page."""
    texts = yaml.safe_load(TEXTS.read_text(encoding="utf-8"))
    return tuple(Claim(key, **text, comparisons=tuple(COMPARED[key]())) for key, text in texts.items())


def pair(
    study: str, data: str, model: str, better: str, worse: str, metric: str, paper: float | None = None
) -> Comparison:
    """Return the comparison of two losses with the same ranker."""
    sides = (Row(study, data, model, better),), (Row(study, data, model, worse),)
    return Comparison(*sides, metric, (better, worse), model, paper)


def printed(table: str, data: str, model: str, better: str, worse: str, metric: str) -> float | None:
    """Return the printed difference of two losses in points.

    On a data set that the table does not have, it is the smallest difference over the sets of the table, and None if
    one of them does not have the claimed sign.
    """
    source = published.load_published(table)
    sets = list(dict.fromkeys(row.data for row in source.rows))
    found = []
    for each in [data] if data in sets else sets:
        first, second = (published.value(table, each, model, loss, metric) for loss in (better, worse))
        if first is None or second is None:
            return None
        found.append(100 / source.scale * (first - second))
    return smallest(found)


def smallest(differences: Sequence[float]) -> float | None:
    """Return the smallest of the differences; None if one of them is not positive."""
    return round(min(differences), 2) if min(differences) > 1e-9 else None


def _lambdaloss(metric: str, table: str, *losses: tuple[str, str]) -> list[Comparison]:
    return [
        pair("claims-lambdaloss", data, model, *names, metric, printed(table, data, "DNN", *names, metric))
        for data in SETS
        for model in ("MLP", "Linear")
        for names in losses
    ]


def _lambdaloss_at_1() -> list[Comparison]:
    others = ("Pairwise", "Softmax", "Gumbel", "LambdaLoss", "LambdaLoss@5")
    return _lambdaloss("nDCG", "lambdaloss-table1", *(("LambdaLoss@1", other) for other in others))


def _top_k(*losses: tuple[str, str]) -> Callable[[], list[Comparison]]:
    return lambda: _lambdaloss("nDCG@5", "lambdaloss-table2", *losses)


def _printed_gap(data: str) -> float:
    """Return the printed difference of LambdaMART and ListNet."""
    mart, listnet = (
        published.value("softmax-table1", data, "LightGBM", loss, NDCG_5_SKIP) for loss in ("LambdaMART", "ListNet")
    )
    assert mart is not None
    assert listnet is not None
    return mart - listnet


def _lambdamart() -> list[Comparison]:
    names = "LambdaMART", "ListNet"
    found = []
    for data in SETS:
        for suffix in ("", "-b"):
            size = smallest([_printed_gap(each + suffix) for each in ("WEB30K", "Yahoo")])
            found.append(pair("claims-softmax", data + suffix, "LightGBM", *names, NDCG_5_SKIP, size))
    return found


def _binary_labels() -> list[Comparison]:
    printed_size = smallest([_printed_gap(each) - _printed_gap(f"{each}-b") for each in ("WEB30K", "Yahoo")])
    found = []
    for data in SETS:
        for model in ("LightGBM", "MLP", "Linear"):
            graded, binary = (
                (Row("claims-softmax", each, "LightGBM", "LambdaMART"), Row("claims-softmax", each, model, "ListNet"))
                for each in (data, f"{data}-b")
            )
            names = "LambdaMART - ListNet, graded", "LambdaMART - ListNet, binary"
            size = printed_size if model == "LightGBM" else None
            found.append(Comparison(graded, binary, NDCG_5_SKIP, names, f"ListNet: {model}", size))
    return found


def _whole_list() -> list[Comparison]:
    direct = {f"NDCG@{k}": f"{NDCG_LINEAR}@{k}" for k in (1, 5, 10)}
    direct |= {f"P@{k}": f"P(ties='trec')@{k}" for k in (1, 5, 10)} | {"AP": "AP(ties='trec')"}
    return [
        pair("claims-smoothi", data, "MLP", "NDCG", loss, metric) for data in SETS for loss, metric in direct.items()
    ]


def _smoothi_best() -> list[Comparison]:
    metric, found = f"{NDCG_LINEAR}@5", []
    for data in SETS:
        for other in ("ListNet", "ListMLE", "LambdaLoss", "ListAP", "Approx", "FastSort", "SoftSort"):
            size = printed("smoothi-table1", data, "DNN", "SmoothI", other, metric)
            found.append(pair("claims-smoothi-dnn", data, "DNN", "SmoothI", other, metric, size))
    return found


def _tanh() -> list[Comparison]:
    losses = NEURAL, f"{NEURAL}, without tanh"
    return [pair("claims-neuralndcg", *where, *losses, NDCG_10_ONE) for where in _small_rankers()]


def _stochastic() -> list[Comparison]:
    losses = f"{NEURAL}, stochastic", NEURAL
    return [pair("claims-neuralndcg", *where, *losses, NDCG_10_ONE) for where in _small_rankers()]


def _temperature() -> list[Comparison]:
    return [
        pair("claims-neuralndcg", data, "MLP", f"{NEURAL}, temperature {value}", NEURAL, NDCG_10_ONE)
        for data in SETS
        for value in ("0.1", "10")
    ]


def _small_rankers() -> list[tuple[str, str]]:
    return [(data, model) for data in SETS for model in ("MLP", CONTEXT_AWARE)]


def _leaderboard(
    data: str, names: tuple[str, str], sides: tuple[tuple[str, str], tuple[str, str]], table: str, printed_as: str
) -> Comparison:
    """Return the comparison of two rows (ranker, loss) of the leaderboard; `printed_as` is the ranker of the table.

    The leaderboard counts 0 for a query without a relevant document, the papers 1. The differences are the same.
    """
    better, worse = ((Row("leaderboard", data, *side),) for side in sides)
    size = printed(table, data, printed_as, *names, NDCG_10_ONE)
    return Comparison(better, worse, "nDCG@10", names, printed_as, size)


def _neuralndcg_approx() -> list[Comparison]:
    sides = (TANH, NEURAL), (CONTEXT_AWARE, "ApproxNDCG")
    names = f"{NEURAL}@max", "ApproxNDCG"
    return [_leaderboard(data, names, sides, "neuralndcg-table3", CONTEXT_AWARE) for data in SETS]


def _learned() -> list[Comparison]:
    table, names, found = "learndcg-table1", ("Learned", "Fixed"), []
    for data in SETS:
        for model in ("MLP", "AttSets"):
            size = printed(table, data, model, *names, NDCG_10_ONE)
            found.append(pair("claims-learndcg", data, model, *names, NDCG_10_ONE, size))
        sides = (CONTEXT_AWARE, "LearnDCG"), (CONTEXT_AWARE, "ApproxNDCG")
        found.append(_leaderboard(data, names, sides, table, CONTEXT_AWARE))
    return found


def _learndcg_best() -> list[Comparison]:
    found = []
    for data in SETS:
        for other in ("ApproxNDCG", NEURAL, "LambdaRank", "LambdaLoss", "ListMLE", "ListNet", "RankNet"):
            ours = "ListMLE (random ties)" if other == "ListMLE" else other
            sides = (CONTEXT_AWARE, "LearnDCG"), (TANH if other == NEURAL else CONTEXT_AWARE, ours)
            found.append(_leaderboard(data, ("LearnDCG", other), sides, "learndcg-table2", CONTEXT_AWARE))
    return found


COMPARED: dict[str, Callable[[], list[Comparison]]] = {
    "lambdaloss-at-1": _lambdaloss_at_1,
    "sound-cutoff": _top_k(("LambdaLoss@5", "LambdaLoss@5 V1")),
    "lambdarank-at-k": _top_k(("LambdaRank", "LambdaRank@1"), ("LambdaRank", "LambdaRank@5")),
    "lambdaloss-lambdarank": _top_k(("LambdaLoss@1", "LambdaRank"), ("LambdaLoss@5", "LambdaRank")),
    "lambdamart-listnet": _lambdamart,
    "binary-labels": _binary_labels,
    "whole-list": _whole_list,
    "smoothi-best": _smoothi_best,
    "tanh": _tanh,
    "stochastic": _stochastic,
    "temperature": _temperature,
    "neuralndcg-approx": _neuralndcg_approx,
    "learned": _learned,
    "learndcg-best": _learndcg_best,
}
