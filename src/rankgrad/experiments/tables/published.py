"""Read the numbers that the papers print: one YAML file per table in `published/`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from rankgrad.errors import one_of
from rankgrad.metrics import parse_metric

_FOLDER = Path(__file__).with_suffix("")


@dataclass(frozen=True)
class PublishedNumber:
    """One number of a published table, exactly as printed."""

    data: str  # name of the data set as in recipes: WEB30K-b is WEB30K with binary labels
    model: str
    loss: str
    metric: str  # our spec of the metric, with the conventions of the paper if they are known
    value: float | None  # None if the number is missing in our copy of the paper
    spread: float | None = None  # number after ±
    mark: str | None = None  # mark of significance that the paper prints
    comparable: bool = True  # False if rankgrad cannot train this model or loss yet


@dataclass(frozen=True)
class PublishedTable:
    """A published table: its numbers, its source and its conventions."""

    name: str
    paper: str
    table: str
    page: int
    scale: float  # factor of the printed numbers: 100 if the paper prints percent, otherwise 1
    conventions: str  # text about the conventions of the metrics
    slips: str  # text about doubtful numbers, such as unreadable or contradictory ones
    rows: tuple[PublishedNumber, ...]


def names() -> list[str]:
    """Return the names of all published tables.

    Example:
        >>> names()[:2]
        ['lambdaloss-table1', 'lambdaloss-table2']
    """
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


@cache
def load_published(name: str) -> PublishedTable:
    """Load a published table by its name.

    Example:
        >>> table = load_published("softmax-table1")
        >>> table.paper[:37], table.page, len(table.rows)
        ('An Analysis of the Softmax Cross Entr', 4, 16)
        >>> table.rows[0].value, table.rows[0].spread
        (46.72, 0.08)
    """
    one_of("published table", name, names())
    read = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    rows = tuple(
        PublishedNumber(**{key: value for key, value in row.items() if key not in ("metric", "ours")},
            metric=str(parse_metric(row["metric"])), comparable="ours" not in row)
        for row in read["rows"]
    )  # fmt: skip
    source = read["source"]
    where = source["paper"], source["table"], source["page"], float(read["scale"])
    return PublishedTable(name, *where, read["conventions"].strip(), read.get("slips", "").strip(), rows)


def find_published(name: str, data: str, model: str, loss: str, metric: str) -> PublishedNumber | None:
    """Return the published number of a model and loss for a metric; None if the paper has no such number."""
    return _rows(name).get((data, model, loss, str(parse_metric(metric))))


def value(name: str, data: str, model: str, loss: str, metric: str) -> float | None:
    """Return a published number as printed; None if the paper does not print the number.

    To compare a number of rankgrad with this number, multiply the number of rankgrad by `load_published(name).scale`.

    Args:
        name: name of the table, as in `answers` of a recipe.
        data, model, loss: names as in the recipe.
        metric: spec of the metric, in any spelling.

    Example:
        >>> value("learndcg-table2", "MQ2008", "Context-Aware Ranker", "LearnDCG", "nDCG(empty='one')@10")
        79.03
    """
    row = find_published(name, data, model, loss, metric)
    return None if row is None else row.value


@cache
def _rows(name: str) -> dict[tuple[str, str, str, str], PublishedNumber]:
    return {(row.data, row.model, row.loss, row.metric): row for row in load_published(name).rows}
