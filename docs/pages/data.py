"""Page about data: files, columns, rows in any order, scores, and the speed of the readers."""

from .measurements import read
from .templates import fill, table

NAMES = {
    "LETOR text": "LETOR text",
    "float32.parquet": "Parquet, float32 columns",
    "float64.parquet": "Parquet, float64 columns",
    "float64.arrow": "Arrow, float64 columns",
    "float32.csv": "CSV",
}


def page() -> str:
    """Return the page."""
    found = read("tables")
    rows = []
    for key, name in NAMES.items():
        speed = found["speed"][key]
        rows.append([name, f"{speed['documents_per_second'] / 1e3:,.0f} thousand", f"{speed['ratio']:.1f}"])
    memory = found["memory"]
    return fill(
        "data",
        documents=f"{found['documents']:,}",
        machine=found["where"],
        speed_table=table(["format", "documents per second", "ratio to LETOR text"], rows),
        gigabytes=f"{memory['gigabytes']:.1f}",
        large=f"{memory['documents']:,}",
        seconds=f"{memory['seconds']:.0f}",
        peak=f"{memory['peak_megabytes']:,.0f}",
    )
