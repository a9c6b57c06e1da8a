"""Section of the page: the three changes that `smooth` makes, one at a time."""

from typing import Any

from empty_lists_results import Rows, facts, sizes
from pages.comparisons import HEAD, LEVEL, adjusted, cells, phrase
from pages.templates import paragraph, table

TARGETS, EMPTIES, WEIGHTS = ("labels", "smoothed"), ("out", "uniform"), ("labels", "targets", "one")
NATURAL = "natural lightgbm shift"  # part of the study with the share of empty lists of the generator
REAL = ("MQ2008", "OHSUMED")
SOFTMAX = "labels out labels"
CHANGES = {  # changes of softmax, one at a time
    "targets": "smoothed out labels",
    "empty lists": "labels uniform labels",
    "weights": "labels out targets",
    "all three (`smooth=0.5`)": "smoothed uniform targets",
}
FIXED_AND_DRAWN = {
    "`xe_ndcg`": ("smoothed out one", "xe_ndcg:gamma=drawn"),
    "`listnet`, `smooth`": ("smoothed uniform one", "listnet, smooth=drawn"),
    "`softmax`, `smooth`": ("smoothed uniform targets", "softmax, smooth=drawn"),
}


def values() -> dict[str, str]:
    """Return the values of the section."""
    sets = {name: Rows(f"sets lightgbm {name}") for name in REAL}
    (size,) = sizes(NATURAL)
    sets["generated"] = Rows(NATURAL, size)
    single = [(name, change, rows, rows.compare(row, SOFTMAX)) for name, rows in sets.items() for change, row in _one()]
    average = [
        (name, change, rows, rows.compare(*groups)) for name, rows in sets.items() for change, groups in _average()
    ]
    p = adjusted([row[-1] for row in [*single, *average]])
    drawn = [
        (name, loss, rows, rows.compare(FIXED_AND_DRAWN[loss][1], FIXED_AND_DRAWN[loss][0]))
        for name, rows in sets.items()
        for loss in FIXED_AND_DRAWN
    ]
    known = facts()["sets"]
    return {
        "ablation_seeds": str(facts()["seeds"]),
        "ablation_replicates": str(facts()["replicates"]),
        "ablation_tests": str(len(p)),
        "ablation_lists": str(size),
        "ablation_empty": ", ".join(f"{each['empty']} of {each['lists']} ({name})" for name, each in known.items()),
        "ablation_single": _single_table(single, p[: len(single)]),
        "ablation_average": _average_table(average, p[len(single) :]),
        "ablation_finding": _finding(single, average, p),
        "drawn_table": _drawn_table(drawn),
        "drawn_finding": _drawn_finding(drawn),
    }


def _one() -> list[tuple[str, str]]:
    return [*CHANGES.items()]


def _average() -> list[tuple[str, tuple[list[str], list[str]]]]:
    """Return each change with the rows that have it and the rows that do not, over all settings of the others."""

    def group(targets: Any = TARGETS, empty: Any = EMPTIES, weights: Any = WEIGHTS) -> list[str]:
        return [f"{t} {e} {w}" for t in targets for e in empty for w in weights]

    by_labels = group(weights=["labels"])
    return [
        ("targets 2^y - 1/2 instead of y", (group(targets=["smoothed"]), group(targets=["labels"]))),
        ("empty lists kept instead of left out", (group(empty=["uniform"]), group(empty=["out"]))),
        ("weight: sum of 2^y - 1/2 instead of sum of y", (group(weights=["targets"]), by_labels)),
        ("weight: 1 instead of sum of y", (group(weights=["one"]), by_labels)),
    ]


def _single_table(found: list[Any], p: Any) -> str:
    lines = []
    for (name, change, rows, compared), corrected in zip(found, p, strict=True):
        means = [f"{rows.mean(row):.2f}" for row in (SOFTMAX, CHANGES[change])]
        lines.append([name, change, *means, *cells(compared, corrected)])
    return table(["set", "change", "`softmax`", "changed", *HEAD], lines)


def _average_table(found: list[Any], p: Any) -> str:
    lines = [[name, change, *cells(compared, one)] for (name, change, _, compared), one in zip(found, p, strict=True)]
    return table(["set", "change, average over all settings of the others", *HEAD], lines)


def _finding(single: list[Any], average: list[Any], p: Any) -> str:
    """Return the sentences about both tables."""
    every = [*zip([*single, *average], p, strict=True)]
    found = [f"{change}, {name}: {phrase(compared, one)}" for (name, change, _, compared), one in every if one < LEVEL]
    _check(not any(one < LEVEL for (name, *_), one in every if name in REAL))
    largest = []
    for data in REAL:
        gaps = {change: compared for name, change, _, compared in average if name == data}
        best = max(gaps, key=lambda change: gaps[change]["difference"])
        largest.append(f"{best} on {data} ({gaps[best]['difference']:+.2f}, detectable {gaps[best]['detectable']:.2f})")
    return paragraph(
        f"Significant are {len(found)} of the {len(p)} differences ({'; '.join(found) or 'none'}). On "
        f"{' and '.join(REAL)}, no change is significant, so these sets do not show which change matters, or that any "
        f"does. In the second table, the largest means are those of {' and '.join(largest)}."
    )


def _check(holds: bool) -> None:
    """Raise an error if the sentences do not follow from the results."""
    if not holds:
        raise ValueError("sentences of smooth_ablation.py must follow from the results; got other results")


def _drawn_table(found: list[Any]) -> str:
    """Return the table of the losses with fixed and with drawn gamma."""
    lines = []
    for (name, loss, rows, compared), p in zip(found, adjusted([each[-1] for each in found]), strict=True):
        means = [f"{rows.mean(row):.2f}" for row in FIXED_AND_DRAWN[loss]]
        lines.append([name, loss, *means, *cells(compared, p), f"{rows.mean('native:rank_xendcg'):.2f}"])
    return table(["set", "loss", "gamma = 1/2", "gamma drawn", *HEAD, "rank_xendcg"], lines)


def _drawn_finding(found: list[Any]) -> str:
    """Return the sentences about drawn gamma."""
    every = [*zip(found, adjusted([each[-1] for each in found]), strict=True)]
    generated = [(compared, p) for (name, _, _, compared), p in every if name not in REAL]
    _check(all(p < LEVEL and compared["difference"] < 0 for compared, p in generated))
    _check(not any(p < LEVEL for (name, *_), p in every if name in REAL))
    least, *_, most = sorted(compared["difference"] for compared, _ in generated)
    return paragraph(
        f"On generated lists, drawing gamma is worse in all {len(generated)} rows, by {least:+.2f} to {most:+.2f}. On "
        f"{' and '.join(REAL)}, it makes no significant difference."
    )
