"""Page of the leaderboard, from `docs/studies/leaderboard.summary.xz`."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.data import load
from rankgrad.data.synthetic import achievable
from rankgrad.experiments.runs.summary import RowSummary, Summary, read_summary
from rankgrad.experiments.seed_variance import (
    TESTS,
    AllPairs,
    RunComparison,
    compare_runs,
    mean_comparison,
    pairs_of,
)
from rankgrad.experiments.statistics import holm

from .measurements import read
from .templates import fill, table

STUDY = Path(__file__).parents[1] / "studies" / "leaderboard.summary.xz"
NAMES = {"MQ2008": "MQ2008", "OHSUMED": "OHSUMED", "grades=5": "graded", "grades=2": "binary", "grades=3": "noisy"}
LAMBDAMART = ("LightGBM", "LambdaMART (native)")
XGBOOST = ("XGBoost", "rank:ndcg (native)")
TANH = "Context-Aware Ranker with tanh"
LEVEL = 0.05
ROUNDS = 1000  # bootstrap samples for the share of first places


class Board:
    """The rows of the summary by ranker, with their tests."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.data = list(dict.fromkeys(row.data for row in summary.rows))
        self.rows: dict[str, dict[str, dict[str, RowSummary]]] = {}  # by ranker, loss and data set
        for row in summary.rows:
            self.rows.setdefault(row.model, {}).setdefault(row.loss, {})[row.data] = row
        self.neural = [model for model in self.rows if len(self.rows[model]) == 18]
        self.known: dict[Any, RunComparison] = {}

    def overall(self, model: str, loss: str) -> float:
        """Return the mean over the data sets."""
        return float(np.mean([row.values.mean for row in self.rows[model][loss].values()]))

    def losses(self, model: str) -> list[str]:
        """Return the losses of a ranker, the best one first."""
        return sorted(self.rows[model], key=lambda loss: -self.overall(model, loss))

    def pairs(self, model: str, data: str | None) -> AllPairs:
        """Return all pairs of losses of a ranker, on one data set or on all."""
        losses = self.losses(model)

        def difference(i: int, j: int) -> RunComparison:
            parts = [self.difference((model, losses[i]), (model, losses[j]), name) for name in self.data]
            return mean_comparison(parts) if data is None else parts[self.data.index(data)]

        return pairs_of(len(losses), difference, level=LEVEL)

    def difference(self, a: tuple[str, str], b: tuple[str, str], data: str) -> RunComparison:
        """Return the comparison of two rows on a data set."""
        if (a, b, data) not in self.known:
            values = [self.rows[model][loss][data].values for model, loss in (a, b)]
            self.known[a, b, data] = compare_runs(*values)
        return self.known[a, b, data]


@cache
def study() -> Board:
    """Return the rows of the study; other pages also use them."""
    return Board(read_summary(STUDY))


def page() -> str:
    """Return the page."""
    board = study()
    summary, neural = board.summary, board.neural
    overall = {model: board.pairs(model, None) for model in board.rows if len(board.rows[model]) > 2}
    per_set = {(model, data): board.pairs(model, data) for model in overall for data in board.data}
    return fill(
        "leaderboard",
        runs=f"{summary.runs:,}",
        hours=f"{summary.seconds / 3600:.1f}",
        machines=", ".join(summary.machines),
        commits=", ".join(summary.commits),
        answers=_answers(board, neural, overall, per_set),
        pairs=str(18 * 17 // 2),
        tables="\n\n".join(_section(board, model, overall[model], per_set) for model in overall),
        detectable=_detectable(board, neural, per_set),
        neural=str(18 * len(neural)),
        lambdamart=_lambdamart(board, neural),
        details=_details(board),
        achievable=_achievable(board),
        **_aa(),
        slow=_slow(board, neural),
    )


def leading() -> tuple[list[str], list[str]]:
    """Return the losses in the leading group of every neural ranker, and those in that of none."""
    board = study()
    neural = board.neural
    overall = {model: board.pairs(model, None) for model in neural}
    groups = {model: {board.losses(model)[place] for place in overall[model].leading} for model in neural}
    never = [loss for loss in board.losses(neural[0]) if not any(loss in group for group in groups.values())]
    return _leading_everywhere(board, neural, overall), never


def _leading_everywhere(board: Board, neural: list[str], overall: dict[str, AllPairs]) -> list[str]:
    return [
        loss
        for loss in board.losses(neural[0])
        if all(board.losses(model).index(loss) in overall[model].leading for model in neural)
    ]


def short(data: str) -> str:
    """Return the short name of a data set."""
    return next(name for part, name in NAMES.items() if part in data)


def _answers(board: Board, neural: list[str], overall: dict[str, AllPairs], per_set: dict[Any, AllPairs]) -> str:
    lines = []
    for model in neural:
        losses, pairs = board.losses(model), overall[model]
        leading = [losses[place] for place in pairs.leading]
        out = [loss for loss in losses if loss not in leading]
        lines.append(
            f"- **{model}**, overall: leading group of {len(leading)}: {', '.join(leading)}. "
            f"Not in it: {', '.join(out) or 'none'}."
        )
    always = _leading_everywhere(board, neural, overall)
    lines.append(f"- **In the leading group with all three neural rankers**: {', '.join(always) or 'none'}.")
    real = [data for data in board.data if short(data) in ("MQ2008", "OHSUMED")]
    for data in real:
        sizes = ", ".join(f"{len(per_set[model, data].leading)} of 18 with {model}" for model in neural)
        lines.append(f"- **{short(data)}** alone: in the leading group are {sizes}.")
    spans = [
        100 * (board.overall(model, (order := board.losses(model))[0]) - board.overall(model, order[-1]))
        for model in neural
    ]
    best = {model: board.overall(model, board.losses(model)[0]) for model in board.rows}
    between = max(best[model] for model in neural) - min(best[model] for model in neural)
    trees = best[LAMBDAMART[0]] - max(best[model] for model in neural)
    lines.append(
        f"- **Loss or ranker?** From the best to the worst of 18 losses: {_span(spans)} points overall within a neural "
        f"ranker; between the best rows of the three neural rankers: {100 * between:.1f}; from the best neural row to "
        f"the best row of {LAMBDAMART[0]}: {100 * trees:+.1f}, mostly due to the generated lists."
    )
    # The line says that the difference to the trees comes from the generated lists.
    made = [data for data in board.data if data not in real]
    assert trees > 0
    assert all(_best(board, [LAMBDAMART[0]], data) - _best(board, neural, data) > 0.1 for data in made)
    assert all(abs(_best(board, [LAMBDAMART[0]], data) - _best(board, neural, data)) < 0.03 for data in real)
    return "\n".join(lines)


def _best(board: Board, models: list[str], data: str) -> float:
    """Return the highest mean of the rankers on a data set."""
    return max(parts[data].values.mean for model in models for parts in board.rows[model].values())


def _section(board: Board, model: str, overall: AllPairs, per_set: dict[Any, AllPairs]) -> str:
    losses, rows = board.losses(model), []
    first = _first(board, model, losses)
    rates = model not in ("LightGBM", "XGBoost")  # these search other settings
    for place, loss in enumerate(losses):
        parts = board.rows[model][loss]
        one = overall.comparisons[place][0]
        against = ["", "", ""] if one is None else _said(one, overall.adjusted[place, 0])
        numbers = [
            _bold(f"{100 * parts[data].values.mean:.2f}", place in per_set[model, data].leading) for data in board.data
        ]
        edge = [_edge(parts)] if rates else []
        seconds = float(np.mean([row.seconds for row in parts.values()]))
        rows.append(
            [
                loss,
                _bold(f"{100 * board.overall(model, loss):.2f}", place in overall.leading),
                *against[:2],
                f"{first[place]:.0%}",
                *numbers,
                *edge,
                f"{seconds:.1f}",
            ]
        )
    seeds = next(iter(board.rows[model][losses[0]].values())).values.seeds
    head = ["loss", "overall", "to the first [95%]", "p (Holm)", "first", *map(short, board.data)]
    head += [*(["edge"] if rates else []), "seconds per run"]
    return f"## {model}\n\n{seeds} seeds per fold.\n\n{table(head, rows)}"


def _first(board: Board, model: str, losses: list[str]) -> list[float]:
    """Return the share of bootstrap samples in which each loss has the highest overall mean.

    Queries are drawn for all rows together, and training runs for each row.
    """
    generator, means = np.random.default_rng(0), np.zeros((ROUNDS, len(losses)))
    for data in board.data:
        rows = [board.rows[model][loss][data].values for loss in losses]
        queries = np.stack([row.query_means for row in rows], axis=1)  # (queries, losses)
        count = len(queries)
        drawn = generator.multinomial(count, np.full(count, 1 / count), size=ROUNDS) / count
        means += drawn @ queries
        for place, row in enumerate(rows):
            runs = row.runs
            kept = max(runs.observed - runs.noise, 0.0) / runs.observed if runs.observed else 0.0
            places = generator.integers(row.seeds, size=(ROUNDS, *runs.effects.shape))
            effects = np.take_along_axis(np.broadcast_to(runs.effects, places.shape), places, axis=2)
            means[:, place] += (effects.mean(axis=2) @ runs.shares) * (kept * row.seeds / (row.seeds - 1)) ** 0.5
    return (np.bincount(means.argmax(axis=1), minlength=len(losses)) / ROUNDS).tolist()


def _edge(parts: dict[str, RowSummary]) -> str:
    """Return the share of folds with a chosen learning rate at the edge of the grid."""
    chosen = [next(iter(choice.values())) for row in parts.values() for choice in row.chosen]
    return f"{np.mean([rate in (0.0003, 0.01) for rate in chosen]):.0%}"


def _detectable(board: Board, neural: list[str], per_set: dict[Any, AllPairs]) -> str:
    from scipy.special import stdtrit

    rows = []
    for model in neural:
        fields = []
        for data in board.data:
            pairs = per_set[model, data]
            found = [one for line in pairs.comparisons for one in line if one is not None]
            single = np.median([one.detectable for one in found])
            level = LEVEL / (len(pairs.adjusted) * (len(pairs.adjusted) - 1) / 2)
            strict = np.median(
                [one.error * (stdtrit(one.freedom, 1 - level / 2) + stdtrit(one.freedom, 0.8)) for one in found]
            )
            fields.append(f"{100 * single:.2f} / {100 * strict:.2f}")
        rows.append([model, *fields])
    return table(["ranker", *map(short, board.data)], rows)


def _lambdamart(board: Board, neural: list[str]) -> str:
    rows = []
    for data in board.data:
        names = [(model, loss) for model in neural for loss in board.losses(model)]
        found = [board.difference(name, LAMBDAMART, data) for name in names]
        adjusted = holm([one.p for one in found])
        better, worse = (
            [
                f"{loss} ({model}, {100 * one.difference:+.2f})"
                for (model, loss), one, p in zip(names, found, adjusted, strict=True)
                if p < LEVEL and (one.difference > 0) == wanted
            ]
            for wanted in (True, False)
        )
        # The page says that all neural rows are behind on the generated lists.
        assert "synthetic" not in data or len(worse) == len(names), data
        values = [f"{100 * board.rows[model][loss][data].values.mean:.2f}" for model, loss in (LAMBDAMART, XGBOOST)]
        rows.append([short(data), *values, ", ".join(better) or "none", f"{len(worse)} of {len(names)}"])
    head = ["data set", "LambdaMART", "XGBoost rank:ndcg", "significantly better", "significantly worse"]
    return table(head, rows)


def _details(board: Board) -> str:
    """Return the table of differences between two forms of a loss."""
    context = "Context-Aware Ranker"
    wanted = [
        ((model, "ListMLE (Breslow)"), (model, "ListMLE (random ties)"), f"ListMLE: Breslow - random ties, {model}")
        for model in ("Linear", "MLP", context)
    ]
    wanted += [
        ((TANH, loss), (context, loss), f"{loss}: with tanh - without, {context}") for loss in ("NeuralNDCG", "Softmax")
    ]
    found = [[board.difference(a, b, data) for data in board.data] for a, b, _ in wanted]
    found = [[*parts, mean_comparison(parts)] for parts in found]
    adjusted = iter(holm([one.p for parts in found for one in parts]))
    rows = []
    for (_, _, name), parts in zip(wanted, found, strict=True):
        rows.append([name, *(" p ".join(_said(one, next(adjusted))[:2]) for one in parts)])
    return table(["difference", *map(short, board.data), "overall"], rows)


def _achievable(board: Board) -> str:
    rows = []
    for data in board.data:
        if "synthetic" not in data:
            continue
        test = load(data).test
        assert test is not None
        top = achievable(test)
        fields = []
        for model in board.rows:
            best = max(board.rows[model], key=lambda loss: board.rows[model][loss][data].values.mean)
            value = board.rows[model][best][data].values.mean
            fields.append(f"{100 * value:.1f} ({value / top:.0%}, {best})")
        rows.append([short(data), f"{100 * top:.1f}", *fields])
    return table(["data set", "achievable", *board.rows], rows)


def _aa() -> dict[str, str]:
    found = read("leaderboard-aa")["checks"]
    rows = []
    for data, check in found.items():
        name = "all" if data == "all" else short(data)
        for test in check["real"]:
            real, drawn = check["real"][test], check["drawn"][test]
            rows.append([name, test, *(f"{100 * one['found'] / one['cases']:.1f}%" for one in (real, drawn))])
    return {
        "aa": table(["data set", "test", "real seeds", "drawn"], rows),
        "cases": f"{found['all']['real']['t']['cases']:,}",
        "rates": _rates(found),
    }


def _rates(found: dict[str, Any]) -> str:
    """Return a sentence with the range of the drawn rates over the data sets, for each test with training runs."""
    said = []
    for test in TESTS:
        drawn = [check["drawn"][test] for data, check in found.items() if data != "all"]
        rates = [100 * one["found"] / one["cases"] for one in drawn]
        said.append(f"{min(rates):.1f}% to {max(rates):.1f}% for {test}")
    return f"The drawn rates of the data sets are {', '.join(said)}; this page uses t."


def _slow(board: Board, neural: list[str]) -> str:
    """Return a sentence on how often the largest learning rate was chosen."""
    said = []
    for model in neural:
        chosen = [
            next(iter(choice.values()))
            for parts in board.rows[model].values()
            for row in parts.values()
            for choice in row.chosen
        ]
        said.append(f"{np.mean([rate == 0.01 for rate in chosen]):.0%} with {model}")
    return f"Validation chose the largest learning rate in {', '.join(said)}: longer training or larger rates may help."


def _said(one: RunComparison, adjusted: float) -> list[str]:
    low, high = one.interval
    p = "<0.001" if adjusted < 0.001 else f"{adjusted:.3f}"
    return [f"{100 * one.difference:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]", p, f"{100 * one.detectable:.2f}"]


def _bold(text: str, strong: bool) -> str:
    return f"**{text}**" if strong else text


def _span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"
