"""Table that compares libraries, and the page of the pages about coming from another library."""

from pathlib import Path

import yaml

import rankgrad
from rankgrad import losses

from .templates import fill, table

DOCS = Path(__file__).parents[1]


def page() -> str:
    """Return the page."""
    return fill("coming-from", peers=comparison("rows", "more_rows"))


def comparison(*parts: str) -> str:
    """Return the table of some parts of `docs/peers.yaml`."""
    found = yaml.safe_load((DOCS / "peers.yaml").read_text(encoding="utf-8"))
    facts = {"losses": len(losses.__all__), "version": rankgrad.__version__}
    rows = [[str(cell).format(**facts) for cell in row] for part in parts for row in found[part]]
    if any(len(row) != len(found["libraries"]) + 1 for row in rows):
        raise ValueError("each row of docs/peers.yaml must have one cell per library; got another number of cells")
    return table(["", *found["libraries"]], rows)
