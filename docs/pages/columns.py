"""Page about missing, categorical and sparse columns, with the measured memory of sparse training."""

import json
from pathlib import Path

from .templates import fill, table

MEASURED = Path(__file__).parents[1] / "tables" / "sparse-memory.json"


def page() -> str:
    """Return the page."""
    found = json.loads(MEASURED.read_text())
    rows = [
        [row["ranker"], row["form"], f"{row['share']:.0%}", f"{row['nnz']:,}", f"{row['megabytes']:,.0f}"]
        for row in found["rows"]
    ]
    head = ["ranker", "matrix", "share of values that are not 0", "number of them", "peak during `fit`, MB"]
    return fill(
        "columns",
        documents=f"{found['documents']:,}",
        columns=str(found["columns"]),
        dense=f"{4e-6 * found['documents'] * found['columns']:,.0f}",
        memory=table(head, rows),
    )
