"""Page about NeuralLoss, from the measurements of `measure.py`."""

from pathlib import Path
from typing import Any

from pages.measurements import read, where
from pages.templates import fill, table


def page() -> str:
    """Return the page."""
    here = Path(__file__).parent
    found = read(here / "results.json")
    return fill(
        here / "template.md",
        lists=str(found["lists"]),
        machine=where(found),
        fidelity_tables=_fidelity_tables(found["fidelity"]),
        seeds=str(found["seeds"]),
        settings=", ".join(f"`{name}={value}`" for name, value in found["ranker"].items()),
        device=found["trained on"].upper(),
        quality_table=_quality_table(found["mq2008"]),
        cost_table=_cost_table(found["cost"]),
    )


def _fidelity_tables(rows: list[dict[str, Any]]) -> str:
    """Return the tables of correlations by length and by shape, for each number of grades."""
    names = list(dict.fromkeys(row["surrogate"] for row in rows))
    lengths = sorted({row["length"] for row in rows})
    shapes = [shape for shape in dict.fromkeys(row["shape"] for row in rows) if shape != "all"]
    trained = [length for length in lengths if length <= 200]
    parts = []
    for grades in sorted({row["grades"] for row in rows}):
        for metric, title in (("dcg", "DCG"), ("ndcg", "NDCG, exponential gain")):
            kept = [name for name in names if metric == "dcg" or name != "labels alone"]
            lines = [
                [name, *(f"{_correlation(rows, name, grades, length, 'all', metric):.3f}" for length in lengths)]
                for name in kept
            ]
            parts += [f"### {title}, {grades} grades, by length", table(["documents", *map(str, lengths)], lines)]
        lines = []
        for shape in shapes:
            pairs = [(metric, name) for metric in ("dcg", "ndcg") for name in names[:2]]
            lines.append([shape, *(_least(rows, name, grades, trained, shape, metric) for metric, name in pairs)])
        head = ["shape", *(f"{name}, {metric}" for metric in ("DCG", "NDCG") for name in names[:2])]
        parts += [f"### {grades} grades, by shape: the worst of 5 to 200 documents", table(head, lines)]
    return "\n\n".join(parts)


def _quality_table(rows: list[dict[str, Any]]) -> str:
    best = max(row["empty one"] for row in rows)
    lines = []
    for row in rows:
        numbers = [f"{row[key]:.2f}" for key in ("empty one", "spread", "empty zero")]
        lines.append([f"`{row['loss']}`", *numbers, f"{row['empty one'] / best:.1%}"])
    return table(["loss", "NDCG@10, empty = 1", "sd over seeds", "NDCG@10, empty = 0", "of the best"], lines)


def _cost_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        [f"{row['lists']} x {row['documents']}", "1", *(f"{row[name]:.1f}" for name in ("mended", "published"))]
        for row in rows
    ]
    return table(["lists x documents", "approx_ndcg", "mended", "published"], lines)


def _least(rows: list[dict[str, Any]], name: str, grades: int, lengths: list[int], shape: str, metric: str) -> str:
    """Return the lowest correlation over the lengths, and its length."""
    worst = min(lengths, key=lambda length: _correlation(rows, name, grades, length, shape, metric))
    return f"{_correlation(rows, name, grades, worst, shape, metric):.3f} ({worst})"


def _correlation(rows: list[dict[str, Any]], name: str, grades: int, length: int, shape: str, metric: str) -> float:
    wanted = {"surrogate": name, "grades": grades, "length": length, "shape": shape}
    return float(next(row for row in rows if all(row[key] == value for key, value in wanted.items()))[metric])
