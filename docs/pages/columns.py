"""Page about missing, categorical and sparse columns, with the measured memory."""

from rankgrad.data.preprocessing.missing_values import INDICATED

from .measurements import read
from .templates import fill, table


def page() -> str:
    """Return the page."""
    memory = read("sparse-memory")
    rows = [
        [row["ranker"], row["form"], f"{row['share']:.0%}", f"{row['nnz']:,}", f"{row['megabytes']:,.0f}"]
        for row in memory["rows"]
    ]
    head = ["ranker", "matrix", "share of values that are not 0", "number of them", "peak during `fit`, MB"]
    return fill(
        "columns",
        indicated=f"{INDICATED:g}",
        documents=f"{memory['documents']:,}",
        columns=str(memory["columns"]),
        dense=f"{4e-6 * memory['documents'] * memory['columns']:,.0f}",
        memory=table(head, rows),
    )
