"""Page that helps to choose a loss, from `docs/when.yaml` and the measurements of two benchmarks.

`benchmarks/plain_losses.py` times every loss in plain PyTorch, `benchmarks/losses.py` the losses with a fused kernel.
"""

from typing import Any

from rankgrad import losses

from .leaderboard import leading
from .losses import FAMILIES, Advice
from .measurements import STUDIES, read, where
from .templates import fill, table


def page(when: dict[str, Advice]) -> str:
    """Return the page."""
    measured = read("plain-losses")
    times = {row["loss"]: row for row in measured["rows"]}
    shapes = measured["shapes"]
    fused = _fused()
    rows = []
    for name in sorted(losses.__all__, key=lambda name: FAMILIES.index(when[name]["family"])):
        entry = when[name]
        ratios = [_ratio(times.get(name, {}).get(shape, {})) for shape in shapes]
        own = [fused.get((name, shape), "-") for shape in shapes]
        link = f"[{name}](losses/{name}.md)"
        rows.append([link, entry["labels"], entry["lists"], entry["metric"], f"O({entry['cost']})", *ratios, *own])
    facts = [
        f"- [{name}](losses/{name}.md). {fact}" for name in losses.__all__ for fact in when[name].get("papers", [])
    ]
    head = ["loss", "labels", "list length", "metric", "cost", *(f"plain, {shape}" for shape in shapes)]
    head += [f"fused, ms, {shape}" for shape in shapes]
    return fill(
        "which-loss",
        unit=", ".join(f"{times['softmax'][shape]['ms']:.2g} ms at {shape}" for shape in shapes),
        setting=measured["setting"],
        fused_setting=where(read("losses-cpu")[0]),
        listmle_first=_first("ListMLE"),
        **dict(zip(("leading", "never"), (", ".join(losses) or "none" for losses in leading()), strict=True)),
        table=table(head, rows),
        papers="\n".join(facts),
    )


def _first(loss: str) -> str:
    """Return the number of rankers with which a loss has the highest mean on MQ2008, as "0 of 4"."""
    found = read(STUDIES / "learndcg-questions" / "rq3.json")["tables"][0]
    best: dict[str, tuple[float, str]] = {}
    for row in found["rows"]:
        entry = row["entries"]["nDCG(empty='one')@10"]["mean"], row["loss"]
        best[row["model"]] = max(entry, best.get(row["model"], entry))
    return f"{sum(name == loss for _, name in best.values())} of {len(best)}"


def _fused() -> dict[tuple[str, str], str]:
    """Return the times of the fused kernels in milliseconds, by loss and shape. A cutoff is no part of the name."""
    return {
        (row["loss"].partition("@")[0], f"{row['lists']} x {row['documents']}"): f"{1e3 * row['fused']['seconds']:.2g}"
        for row in read("losses-cpu")
    }


def _ratio(cell: dict[str, Any]) -> str:
    """Return a time as a multiple of softmax, or the reason why there is none."""
    if "ratio" not in cell:
        return f"too large ({cell['kept_mb'] / 1e3:.0f} GB)" if cell else "-"
    return f"{cell['ratio']:.0f}" if cell["ratio"] >= 10 else f"{cell['ratio']:.1f}"
