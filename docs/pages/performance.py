"""Page about speed, from the measurements of `benchmarks/losses.py`, `rax_losses.py` and `native.py`."""

from typing import Any

from .measurements import read_if_present, where
from .templates import fill, table

COMPARED = (  # their time, our time, and the sentence's words for our time
    ("rax", "fused", "than a call of ours with its backward pass"),
    ("rax", "value_and_grad", "than our value_and_grad"),
    ("rax inside", "graph", "inside a compiled step"),
)
NO_RAX = "Rax, which needs JAX, was not measured here."


def page() -> str:
    """Return the page; a section without measurements is left out."""
    rax = {device: rax_section(device) for device in ("cpu", "gpu")}
    return fill(
        "performance",
        cpu=times_section("cpu"),
        gpu=times_section("gpu", rax_not_measured="" if rax["gpu"] else NO_RAX),
        rax=fill("performance-rax", **rax) if any(rax.values()) else "",
        native=native_section(),
    )


def times_section(device: str, **values: str) -> str:
    """Return the section about our losses on one device."""
    rows = read_if_present(f"losses-{device}")
    if not rows:
        return ""
    return fill(f"performance-{device}", machine=where(rows[0]), table=times_table(rows), **values)


def native_section() -> str:
    """Return the section about the C++ module."""
    rows = read_if_present("native-gpu")
    if not rows:
        return ""
    kinds = ("eager off", "eager on", "value_and_grad off", "value_and_grad on")
    lines = [[row["loss"], *(time(row, kind) for kind in kinds)] for row in rows]
    lists, documents = str(rows[0]["lists"]), str(rows[0]["documents"])
    times = table(["loss", *kinds], lines)
    return fill("performance-native", lists=lists, documents=documents, machine=where(rows[0]), table=times)


def rax_section(device: str) -> str:
    """Return the comparison with Rax on one device."""
    rows = read_if_present(f"rax-{device}")
    if not rows:
        return ""
    versions = f"{where(rows[0])}, Rax {rows[0]['Rax']}, JAX {rows[0]['JAX']}"
    return fill(f"performance-rax-{device}", versions=versions, faster=faster(rows), table=rax_table(rows))


def faster(rows: list[dict[str, Any]]) -> str:
    """Return sentences that list the losses and list sizes for which Rax takes less time."""
    said = []
    for theirs, ours, how in COMPARED:
        compared = [row for row in rows if ours in row and theirs in row]
        if compared:
            lost = [row for row in compared if ratio(row, theirs, ours) < 1]
            named = "; ".join(slower(name, compared, lost) for name in dict.fromkeys(row["loss"] for row in lost))
            said.append(f"Rax is faster {how} in {len(lost)} of {len(compared)} rows{': ' if lost else ''}{named}.")
    return " ".join(said)


def slower(name: str, compared: list[dict[str, Any]], lost: list[dict[str, Any]]) -> str:
    """Return the name of a loss, with the list sizes at which ours is slower unless it is slower at all of them."""
    every, here = (" and ".join(lists(row) for row in rows if row["loss"] == name) for rows in (compared, lost))
    return f"`{name}`" if here == every else f"`{name}` at {here}"


def rax_table(rows: list[dict[str, Any]]) -> str:
    """Return a table with a row per loss and list size: our times, those of Rax, and the memory of long lists."""
    every = {key for row in rows for key in row}
    kinds = [kind for kind in ("fused", "value_and_grad", "rax", "plain", "compiled") if kind in every]
    kinds += [kind for kind in ("graph", "rax inside") if kind in every]
    ratios = [(theirs, ours) for theirs, ours, _ in COMPARED if {theirs, ours} <= every]
    memory = [key for key in ("bytes a document", "rax bytes a document") if key in every]
    head = [*kinds, *(f"{theirs} / {ours}" for theirs, ours in ratios), *memory]
    lines = []
    for row in rows:
        cells = [row["loss"], lists(row), *(time(row, kind) for kind in kinds)]
        cells += [f"{ratio(row, *pair):.1f}" if set(pair) <= set(row) else "" for pair in ratios]
        lines.append(cells + [f"{row[key]:,.0f}" if key in row else "" for key in memory])
    return table(
        ["loss", "lists x documents", *(title.replace("rax", "Rax").replace(" a doc", " per doc") for title in head)],
        lines,
    )


def lists(row: dict[str, Any]) -> str:
    """Return the shape of a batch as text."""
    return f"{row['lists']} x {row['documents']:,}{' masked' if row['masked'] else ''}"


def ratio(row: dict[str, Any], theirs: str, ours: str) -> float:
    """Return their time divided by ours."""
    return float(row[theirs]["seconds"] / row[ours]["seconds"])


def times_table(rows: list[dict[str, Any]]) -> str:
    """Return a table with a row per loss and list size, and a column per implementation."""
    every = {key for row in rows for key in row}
    graph = "graph" in every
    titles = {"graph": "graph", "value_and_grad": "value_and_grad", "fused": "fused", "one thread": "one thread"}
    titles |= {"plain": "plain", "compiled": "compiled", "baseline": "textbook"}
    kinds = [(kind, title) for kind, title in titles.items() if kind in every]
    head = ["loss", "lists x documents", *(title for _, title in kinds), "plain / fused", "textbook / fused"]
    head += ["bytes per document"] if graph else []
    lines = []
    for row in rows:
        cells = [row["loss"], f"{row['lists']} x {row['documents']:,}", *(time(row, kind) for kind, _ in kinds)]
        cells += [f"{row[key]:.1f}" if key in row else "" for key in ("times plain", "times baseline")]
        cells += [f"{row['bytes a document']:.0f}" if "bytes a document" in row else ""] if graph else []
        lines.append(cells)
    return table(head, lines)


def time(row: dict[str, Any], kind: str) -> str:
    """Return a time in microseconds or milliseconds."""
    if kind not in row:
        return ""
    seconds = row[kind]["seconds"]
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
