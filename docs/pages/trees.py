"""Page about trees, from the measurements of the tree benchmarks."""

import math
from typing import Any

from rankgrad.losses import curvature

from .comparisons import HEAD, LEVEL, adjusted, cells, phrase
from .measurements import read
from .templates import fill, paragraph, table

TUNED_TESTS = {  # by the value of "tests" in the measurements
    "runs": "Tests and intervals as above.",
    "summaries": "The values of single runs of this table were not kept. Its errors are computed from the stored "
    "intervals over queries and the deviations over seeds, so they are too large rather than too small.",
}


def page() -> str:
    """Return the page."""
    losses, tuned, rounds = read("trees-losses"), read("trees-mq2008"), read("tree-rounds")
    return fill(
        "trees",
        second_derivatives=_second_derivatives(),
        **_losses(losses),
        **_tuned(tuned),
        **_rounds(rounds),
    )


def _second_derivatives() -> str:
    """Return the table in the docstring of `rankgrad.losses.curvature`."""
    return "\n\n".join(part.strip() for part in (curvature.__doc__ or "").split("\n\n")[1:])


def _losses(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the sections about losses with the same settings."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        rows.setdefault(row["table"], []).append(row)
    queries, empty = found["sets"]["MQ2008"].values()
    # Differences between smoothed and published losses are in the table of all sets.
    same = [row for row in rows["same"] if row.get("against") not in ("softmax", "listnet")]
    settings = {
        name: ", ".join(f"`{key}={value}`" for key, value in values.items()) for name, values in found["params"].items()
    }
    return {
        "queries": str(queries),
        "empty": str(empty),
        "same_settings": "; ".join(f"{name}: {values}" for name, values in settings.items()),
        "most_trees": str(found["budget"]["trees"]),
        "patience": str(found["budget"]["patience"]),
        "losses_machine": _machine(found),
        "same_table": _same_table(same, empty / queries),
        "same_finding": _same_finding(same),
        "sets_seeds": str(rows["sets"][0]["seeds"]),
        "sets_table": _sets_table(rows["sets"], found["sets"]),
        "sets_finding": _sets_finding(rows["sets"]),
        "learned_seeds": str(rows["learned"][0]["seeds"]),
        "learned_table": _learned_table(rows["learned"]),
    }


def _same_table(rows: list[dict[str, Any]], empty: float) -> str:
    """Return the table of all losses on MQ2008; `empty` is the share of queries without a relevant document."""
    lines = []
    for row, tested in _tested(rows):
        numbers = row["validation"], row["empty zero"], row["empty zero"] + 100 * empty, row["spread"]
        lines.append([_name(row["what"]), str(row["seeds"]), *(f"{n:.2f}" for n in numbers), *tested])
    return table(["ranker", "seeds", "validation", "empty = 0", "empty = 1", "sd", *HEAD], lines)


def _same_finding(rows: list[dict[str, Any]]) -> str:
    """Return the sentences about the table of all losses."""
    compared = [row for row in rows if "against" in row]
    significant = [(row, p) for row, p in zip(compared, adjusted(compared), strict=True) if p < LEVEL]
    found = [f"{_name(row['what'])} {phrase(row, p)} to {_name(row['against'])}" for row, p in significant]
    names = {row["what"] for row, _ in significant}
    if any("lambdarank" in name or "smooth" in name for name in names):
        raise ValueError(f"the sentences of `trees` must be changed; got significant rows {sorted(names)}")
    shown = (
        "It shows no difference between our `lambdarank` and those of the frameworks, nor between `rank_xendcg` and "
    )
    last = "a smoothed loss; the last column says how large a missed difference can be."
    return paragraph(f"{_significant(found)} {shown}{last}")


def _smoothed_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the comparisons of smoothed losses with the published ones."""
    return [row for row in rows if row.get("against") == row["what"].partition(", smooth=")[0]]


def _sets_table(rows: list[dict[str, Any]], sets: dict[str, Any]) -> str:
    """Return the table of plain and smoothed losses on all data sets."""
    lines = []
    compared = _smoothed_rows(rows)
    for row, p in zip(compared, adjusted(compared), strict=True):
        loss, _, smooth = row["what"].partition(", smooth=")
        means = {other["what"]: other["empty zero"] for other in rows if other["data"] == row["data"]}
        kind = "drawn" if smooth == "drawn" else f"g = {smooth}"
        numbers = [f"{means[loss]:.2f}", f"{row['empty zero']:.2f} ({kind})"]
        native = f"{means['native:rank_xendcg']:.2f}"
        size = str(sets[row["data"]]["lists"])
        lines.append([row["data"], size, f"`{loss}`", *numbers, *cells(row, p), native])
    return table(["set", "queries", "loss", "without smooth", "with smooth", *HEAD, "rank_xendcg"], lines)


def _sets_finding(rows: list[dict[str, Any]]) -> str:
    """Return the sentence about the significant differences of the table of smoothed losses."""
    compared = _smoothed_rows(rows)
    pairs = zip(compared, adjusted(compared), strict=True)
    return _significant([f"`{row['what']}` on {row['data']}, {phrase(row, p)}" for row, p in pairs if p < LEVEL])


def _learned_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row, tested in _tested(rows):
        numbers = [f"{row[key]:.2f}" for key in ("validation", "empty zero", "spread")]
        moved = [f"{name} {', '.join(f'{v:.2f}' for v in spread)}" for name, spread in row["learned"].items()]
        lines.append([_name(row["what"]), *numbers, *tested, "; ".join(moved)])
    return table(["loss", "validation", "test", "sd over seeds", *HEAD, "scalars"], lines)


def _tuned(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about tuned LambdaMART."""
    search, study = (
        [f"`{name}` of {', '.join(map(str, values))}" for name, values in found[key].items()]
        for key in ("grid", "studied")
    )
    lines = []
    for row, tested in _tested(found["rows"]):
        numbers = [f"{row[key]:.2f}" for key in ("empty zero", "empty one", "spread")]
        lines.append([_name(row["what"]), *numbers, *tested])
    ours, studied = "blend of our trees", "native:lambdarank, the study's search"
    reseeded = next(row["what"] for row in found["rows"] if row["what"].endswith("seeds"))
    return {
        "tuned_count": str(math.prod(len(values) for values in found["grid"].values())),
        "tuned_search": ", ".join(search),
        "tuned_seeds": str(found["seeds"]),
        "study_search": " and ".join(study),
        "kept": str(found["kept"]),
        "blended_model": found["model"],
        "tuned_machine": _machine(found),
        "tuned_tests": TUNED_TESTS[found.get("tests", "runs")],
        "tuned_finding": _tuned_finding(found["rows"], ours),
        "tuned_table": table(["ranker", "empty = 0", "empty = 1", "sd over seeds", *HEAD], lines),
        "ours_from_study": _gap(found["rows"], ours, studied),
        "reseeded_from_study": _gap(found["rows"], reseeded, studied),
        "ours_from_reseeded": _gap(found["rows"], ours, reseeded),
    }


def _rounds(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about the cost of a boosting round."""
    lines = []
    for row in found["rows"]:
        inside = f"{row.get('in the objective', 0):.3f} s"
        lines.append([f"`{row['objective']}`", f"{row['seconds']:.2f} s", f"{row['ratio']:.2f}", inside])
    lines[0][-1] = ""
    return {
        "rounds_lists": f"{found['lists']:,}",
        "rounds_documents": f"{found['documents']:,}",
        "rounds": str(found["rounds"]),
        "rounds_machine": _machine(found),
        "rounds_command": (
            f"python benchmarks/tree_rounds.py --lists {found['lists']} --json docs/tables/tree-rounds.json"
        ),
        "rounds_table": table(["objective", "time per round", "ratio", "part in our objective"], lines),
    }


def _machine(facts: dict[str, Any]) -> str:
    return f"{facts['chip']}, LightGBM {facts['lightgbm']}, commit {facts['commit']}"


def _name(what: str) -> str:
    return what if "blend" in what or "best" in what else f"`{what}`"


def _tested(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the rows of a table, each with the cells of its test; p-values are corrected over the table."""
    compared = [row for row in rows if "against" in row]
    p = iter(adjusted(compared))
    found = []
    for row in rows:
        if "against" in row:
            difference, *others = cells(row, next(p))
            found.append((row, [f"{difference} to {_name(row['against'])}", *others]))
        else:
            found.append((row, [""] * len(HEAD)))
    return found


def _significant(found: list[str]) -> str:
    """Return the sentence about the significant differences of a table."""
    if not found:
        return "No difference in this table is significant."
    count = "One difference in this table is" if len(found) == 1 else f"{len(found)} differences in this table are"
    return f"{count} significant: {'; '.join(found)}."


def _tuned_finding(rows: list[dict[str, Any]], ours: str) -> str:
    """Return the sentence about our blend."""
    means = {row["what"]: row["empty zero"] for row in rows}
    first = "Our blend has the highest mean" if means[ours] == max(means.values()) else "Our blend is not first"
    compared = [row for row in rows if "against" in row]
    pairs = zip(compared, adjusted(compared), strict=True)
    significant = [row["against"] for row, p in pairs if p < LEVEL and row["what"] == ours]
    if significant:
        return f"**{first}; its difference is significant only to {', '.join(map(_name, significant))}.**"
    return f"**{first}, but its difference to no other row is significant.**"


def _gap(rows: list[dict[str, Any]], what: str, against: str) -> str:
    """Return the difference of two rows as a part of a sentence."""
    compared = [row for row in rows if "against" in row]
    pairs = zip(compared, adjusted(compared), strict=True)
    return next(phrase(row, p) for row, p in pairs if (row["what"], row["against"]) == (what, against))
