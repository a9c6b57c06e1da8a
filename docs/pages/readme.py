"""README of the repository, with the results of the benchmarks. Its links are absolute, because PyPI also shows it."""

import json
import lzma
from pathlib import Path
from typing import Any

from rankgrad import losses
from rankgrad.kernels.op import FUSED

from . import auto, peers
from .leaderboard import leading
from .measurements import read
from .templates import fill, table

DOCS = Path(__file__).parents[1]
REPOSITORY = "https://github.com/rankgrad/rankgrad/blob/main"
RAW = "https://raw.githubusercontent.com/rankgrad/rankgrad/main"
LINKS = {
    "start": "docs/start.md",
    "install": "docs/install.md",
    "guides": "docs/guides/index.md",
    "which-loss": "docs/which-loss.md",
    "coming": "docs/coming-from/index.md",
    "faq": "docs/faq.md",
    "auto": "docs/auto.md",
    "leaderboard": "docs/leaderboard.md",
    "claims": "studies/claims/README.md",
    "performance": "docs/performance.md",
    "scale": "docs/scale.md",
    "architecture": "docs/architecture.md",
    "promises": "docs/promises.md",
    "contributing": "CONTRIBUTING.md",
    "changes": "CHANGELOG.md",
    "security": "SECURITY.md",
}
PICTURE = "figures/report.png"  # `python docs/report_picture.py` makes it
SECONDS = 60  # time limit of the shown comparison
SYSTEMS = {
    "auto": "`rankgrad auto`",
    "lambdamart": "LambdaMART (LightGBM), random search",
    "flaml": "FLAML 2.7, LightGBM",
}
SHOWN = (("lambdaloss@5", 64, 240), ("approx_ndcg", 64, 240), ("neural_ndcg", 64, 240), ("ranknet", 8, 1000))


def page() -> str:
    """Return the page."""
    records = json.loads(lzma.decompress((DOCS / "studies" / "auto.json.xz").read_bytes()))
    shown = [record for record in records if record["seconds"] == SECONDS]
    best, _ = leading()
    return fill(
        "readme",
        losses=str(len(losses.__all__)),
        fused=str(len(FUSED)),
        seconds=str(SECONDS),
        seeds=str(len({record["seed"] for record in shown})),
        auto_commit=records[0]["versions"]["commit"],
        quality=_quality(records),
        differences=_differences(records),
        leaderboard=(
            "In a study of 18 losses on five data sets, tuned with equal effort, no loss is significantly better than "
            f"these with any of three neural rankers: {', '.join(best)}."
        ),
        speed=_speed(),
        peers=peers.comparison("rows"),
        links="\n".join(f"[{name}]: {address}" for name, address in _links().items()),
    )


def _links() -> dict[str, str]:
    return {"picture": f"{RAW}/docs/{PICTURE}"} | {name: f"{REPOSITORY}/{path}" for name, path in LINKS.items()}


def _quality(records: list[dict[str, Any]]) -> str:
    rows = []
    for name, text in SYSTEMS.items():
        found = [auto.values(records, SECONDS, data, name) for data in auto.SETS]
        rows.append([text, *("" if each is None else f"{auto.mean(each):.2f}" for each in found)])
    return table(["system", *auto.SETS], rows)


def _differences(records: list[dict[str, Any]]) -> str:
    """Return one sentence per data set: the differences with their intervals."""
    sentences = []
    for data in auto.SETS:
        ours = auto.values(records, SECONDS, data, "auto")
        parts = []
        for rival in auto.RIVALS:
            theirs = auto.values(records, SECONDS, data, rival)
            assert ours is not None
            assert theirs is not None
            gap, low, high, *_ = auto.compare(ours, theirs)
            parts.append(
                f"{gap:+.2f} [{low:+.2f}, {high:+.2f}] to {'LambdaMART' if rival == 'lambdamart' else 'FLAML'}"
            )
        sentences.append(f"{data}: {' and '.join(parts)}")
    return f"Differences of `rankgrad auto`, in points, with 95% intervals: {'; '.join(sentences)}."


def _speed() -> str:
    """Return the table of times on a CPU and on a GPU."""
    devices = {f"2 cores of an {_chip('cpu')}": _times("cpu"), f"one {_chip('gpu')}": _times("gpu")}
    head = ["loss, lists x documents", *(f"{kind}, {name}" for name in devices for kind in ("textbook", "plain"))]
    rows = []
    for key in SHOWN:
        loss, lists, documents = key
        cells = [f"{found[key][kind]:.0f}" for found in devices.values() for kind in ("times baseline", "times plain")]
        rows.append([f"`{loss}`, {lists} x {documents:,}", *cells])
    return table(head, rows)


def _times(device: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    return {(row["loss"], row["lists"], row["documents"]): row for row in read(f"losses-{device}")}


def _chip(device: str) -> str:
    return str(read(f"losses-{device}")[0]["chip"].partition(",")[0])
