"""Page about trees, from the measurements of the tree benchmarks."""

import math
from typing import Any

from rankgrad.trees import hessians

from .measurements import read
from .templates import fill, table

HEAD = ["difference", "95% interval", "p, t-test"]


def page() -> str:
    """Return the page."""
    losses, tuned, rounds = read("trees-losses"), read("trees-mq2008"), read("tree-rounds")
    return fill(
        "trees", second_derivatives=_second_derivatives(), **_losses(losses), **_tuned(tuned), **_rounds(rounds)
    )


def _second_derivatives() -> str:
    """Return the table in the docstring of `rankgrad.trees.hessians`."""
    return "\n\n".join(part.strip() for part in (hessians.__doc__ or "").split("\n\n")[1:])


def _losses(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the sections about losses with the same settings."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        rows.setdefault(row["table"], []).append(row)
    queries, empty = found["sets"]["MQ2008"].values()
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
        "same_table": _same_table(rows["same"], empty / queries),
        "sets_seeds": str(rows["sets"][0]["seeds"]),
        "sets_table": _sets_table(rows["sets"], found["sets"]),
        "learned_seeds": str(rows["learned"][0]["seeds"]),
        "learned_table": _learned_table(rows["learned"]),
    }


def _same_table(rows: list[dict[str, Any]], empty: float) -> str:
    """Return the table of all losses on MQ2008; `empty` is the share of queries without a relevant document."""
    lines = []
    for row in rows:
        if row.get("against") in ("softmax", "listnet"):  # smoothed losses are in the table of all sets
            continue
        numbers = row["validation"], row["empty zero"], row["empty zero"] + 100 * empty, row["spread"]
        lines.append([_name(row["what"]), str(row["seeds"]), *(f"{n:.2f}" for n in numbers), *_difference(row)])
    return table(["ranker", "seeds", "validation", "empty = 0", "empty = 1", "sd", *HEAD], lines)


def _sets_table(rows: list[dict[str, Any]], sets: dict[str, Any]) -> str:
    """Return the table of plain and smoothed losses on all data sets."""
    lines = []
    for row in rows:
        loss, _, smooth = row["what"].partition(", smooth=")
        if not smooth or row["against"] != loss:
            continue
        means = {other["what"]: other["empty zero"] for other in rows if other["data"] == row["data"]}
        kind = "drawn" if smooth == "drawn" else f"g = {smooth}"
        numbers = [f"{means[loss]:.2f}", f"{row['empty zero']:.2f} ({kind})", f"{row['difference']:+.2f}"]
        native = f"{means['native:rank_xendcg']:.2f}"
        size = str(sets[row["data"]]["lists"])
        lines.append([row["data"], size, f"`{loss}`", *numbers, *_difference(row)[1:], native])
    return table(["set", "queries", "loss", "target y", "target 2^y - g", *HEAD, "rank_xendcg"], lines)


def _learned_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        numbers = [f"{row[key]:.2f}" for key in ("validation", "empty zero", "spread")]
        moved = [f"{name} {', '.join(f'{v:.2f}' for v in spread)}" for name, spread in row["learned"].items()]
        lines.append([_name(row["what"]), *numbers, *_difference(row), "; ".join(moved)])
    return table(["loss", "validation", "test", "sd over seeds", *HEAD, "scalars"], lines)


def _tuned(found: dict[str, Any]) -> dict[str, str]:
    """Return the values of the section about tuned LambdaMART."""
    search, study = (
        [f"`{name}` of {', '.join(map(str, values))}" for name, values in found[key].items()]
        for key in ("grid", "studied")
    )
    lines = []
    for row in found["rows"]:
        numbers = [f"{row[key]:.2f}" for key in ("empty zero", "empty one", "spread")]
        lines.append([_name(row["what"]), *numbers, *_difference(row)])
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


def _difference(row: dict[str, Any]) -> list[str]:
    """Return the difference to the row that this one is tested against, its interval and its p-value."""
    if "against" not in row:
        return ["", "", ""]
    interval = f"{row['low']:+.2f} to {row['high']:+.2f}"
    return [f"{row['difference']:+.2f} to {_name(row['against'])}", interval, f"{row['p, t']:.3f}"]


def _gap(rows: list[dict[str, Any]], what: str, against: str) -> str:
    """Return the difference of two rows in one phrase."""
    row = next(row for row in rows if (row["what"], row.get("against")) == (what, against))
    return f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f}, p {row['p, t']:.2f})"
