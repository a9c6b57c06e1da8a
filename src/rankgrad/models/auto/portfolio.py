"""Candidates of the automatic search: a fixed portfolio of settings, then random variations of these settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankgrad.models.registry import kind_or_default
from rankgrad.models.search_space import draws
from rankgrad.spec import spell

_MLP = "mlp:widths=64-32,dropout=0.3"
_LIGHTGBM = (
    "lightgbm:num_leaves=15,learning_rate=0.05,feature_fraction=0.5,bagging_fraction=0.8,bagging_freq=1,"
    "min_data_in_leaf=20"
)
_XGBOOST = "xgboost:max_depth=4,eta=0.05,colsample_bytree=0.5,subsample=0.8"
_NETWORK = {"lr": 0.003, "batch_size": 16, "epochs": 100, "patience": 20}
_TREES = {"trees": 500, "patience": 50}

# The first entries are cheap, and differ from each other: a short search has only these.
PORTFOLIO: tuple[dict[str, Any], ...] = (
    {"model": _LIGHTGBM, "loss": "native:lambdarank", **_TREES},
    {"model": "linear", "loss": "softmax", **_NETWORK},
    {"model": _XGBOOST, "loss": "native:rank:ndcg", **_TREES},
    {"model": _MLP, "loss": "softmax", **_NETWORK},
    {"model": _LIGHTGBM, "loss": "softmax", **_TREES},
    {"model": _MLP, "loss": "lambdaloss@10", **_NETWORK},
    {"model": _LIGHTGBM, "loss": "native:rank_xendcg", **_TREES},
    {"model": "linear", "loss": "lambdaloss@10", **_NETWORK},
    {"model": _XGBOOST, "loss": "native:rank:pairwise", **_TREES},
    {"model": _MLP, "loss": "ranknet", **_NETWORK},
    {"model": _LIGHTGBM, "loss": "mse", **_TREES},
    {"model": _MLP, "loss": "neural_ndcg", **_NETWORK},
    {"model": "attsets:widths=64,head=64,dropout=0.3", "loss": "softmax", **_NETWORK},
    {"model": "mlp:widths=256-128,dropout=0.3", "loss": "softmax", **_NETWORK, "preprocess": "log1p,standardise"},
    {"model": _LIGHTGBM.replace("num_leaves=15", "num_leaves=63"), "loss": "native:lambdarank", **_TREES},
    {"model": _LIGHTGBM, "loss": "lambdaloss", **_TREES},
)


@dataclass(frozen=True)
class Candidate:
    """Settings of a ranker that the automatic search tries."""

    number: int  # position in the order of the search, from 1
    settings: dict[str, Any]  # settings of the ranker, without seed and metric

    @property
    def name(self) -> str:
        """Short name of the candidate, such as `c001`; names of folders begin with it."""
        return f"c{self.number:03d}"

    @property
    def family(self) -> str:
        """Family of the candidate, trees or networks. The even blend gives the same weight to each family."""
        return "trees" if kind_or_default(self.settings["model"]).unit == "tree" else "networks"

    @property
    def model(self) -> str:
        """Name of the model of the candidate without its options, such as `mlp`."""
        return spell("model", str(self.settings["model"])).name

    @property
    def loss(self) -> str:
        """Spec of the loss of the candidate."""
        return str(self.settings["loss"])


def candidates(seed: int, installed: Mapping[str, bool], missing: str = "error") -> Iterator[Candidate]:
    """Yield an unlimited number of candidates: first the portfolio, then random variations of its entries.

    Args:
        seed: random seed of the variations.
        installed: for each kind of ranker, True if its package is installed.
        missing: setting `missing` of rankers that do not accept NaN.
    """
    added = {} if missing == "error" else {"missing": missing}

    def candidate(number: int, settings: Mapping[str, Any]) -> Candidate:
        return Candidate(number, {**settings, **({} if kind_or_default(settings["model"]).takes_missing else added)})

    known = [entry for entry in PORTFOLIO if installed[kind_or_default(entry["model"]).name]]
    for number, entry in enumerate(PORTFOLIO, 1):
        if entry in known:
            yield candidate(number, entry)
    number = len(PORTFOLIO)
    rng = np.random.default_rng([seed, 1])
    while True:
        for place in rng.permutation(len(known)):
            number += 1
            yield candidate(number, _near(known[place], int(rng.integers(2**31))))


def installed_kinds() -> dict[str, bool]:
    """Return, for each kind of ranker in the portfolio, True if its package is installed."""
    found = {}
    for entry in PORTFOLIO:
        kind = kind_or_default(entry["model"])
        if kind.name not in found:
            try:
                kind.check_installed()
                found[kind.name] = True
            except ImportError:
                found[kind.name] = False
    return found


def missing_notes() -> list[str]:
    """Return a sentence about each kind of ranker whose package is not installed."""
    absent = [name for name, found in installed_kinds().items() if not found]
    return [f"{name} was not tried, because it is not installed: pip install 'rankgrad[trees]'" for name in absent]


def _near(entry: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return an entry of the portfolio with random settings from the search space of its kind of ranker."""
    kind = kind_or_default(entry["model"])
    plain = {**entry, "model": spell("model", str(entry["model"])).name}
    for name in ("lr", "batch_size", "preprocess"):
        plain.pop(name, None)
    return kind.drawn(plain, draws(kind.space(plain), 1, seed)[0])
