"""Page about the programs that can run an exported ranker, with the measured latency of ONNX Runtime."""

from typing import Any

from .measurements import read, where
from .templates import fill, paragraph, table


def page() -> str:
    """Return the page."""
    found = read("serving")
    rows = [[row["ranker"], row["way"], f"{row['p50']:.2f}", f"{row['p99']:.2f}"] for row in found["rows"]]
    return fill("serving", table=table(["ranker", "computed by", "p50, ms", "p99, ms"], rows), finding=_finding(found))


def _finding(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return paragraph(
        f"Time to score one list of {found['documents']} documents with {found['features']} features on one core, over "
        f"{found['calls']:,} calls in one run of `python benchmarks/serving.py --write` ({where(found)}, {versions}). "
        f"Trees have at most {found['leaves']} leaves. The time of an HTTP request includes JSON: the client writes "
        f"its text once, and the server parses it in each request. Before the run, the load average of the machine was "
        f"{found['load']:.1f} (processes that run or wait); other programs make p99 larger."
    )
