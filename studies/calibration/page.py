"""Page with the study of calibration."""

import json
from pathlib import Path
from typing import Any

from pages.templates import fill, table

HERE = Path(__file__).parent
ALLOWED = 0.01  # ECE of a calibrated model above that of bce that is still called equal


def page() -> str:
    """Return the page."""
    found = json.loads((HERE / "results.json").read_text())
    head = [
        "data",
        "loss",
        "calibration",
        "ECE",
        "ECE minus that of `bce`",
        "nDCG@10",
        "nDCG@10 minus that of `softmax`",
    ]
    rows = [
        [
            row["data"], f"`{row['loss']}`", row["calibration"], _with_interval(row, "ece"),
            _with_interval(row, "ece minus bce", "+"), _with_interval(row, "ndcg"),
            _with_interval(row, "ndcg minus softmax", "+"),
        ]
        for row in found["rows"]
    ]  # fmt: skip
    settings = found["settings"]
    study = (
        f"`{settings['model']}` was trained with each loss, learning rate {settings['lr']}, at most "
        f"{settings['epochs']} epochs and {found['seeds']} seeds."
    )
    return fill(HERE / "template.md", study=study, table=table(head, rows), findings=_findings(found["rows"]))


def _with_interval(row: dict[str, Any], name: str, sign: str = "") -> str:
    low, high = row[f"{name} interval"]
    value = row[name]
    if low == high:
        return f"{value:{sign}.3f}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def _findings(rows: list[dict[str, Any]]) -> str:
    """Return one sentence per method about softmax, then one sentence per sum of losses without calibration."""
    lines = []
    for method in ("platt", "isotonic"):
        each = [row for row in rows if row["loss"] == "softmax" and row["calibration"] == method]
        held = [row for row in each if row["ece minus bce"] <= ALLOWED]
        numbers = ", ".join(f"{row['ece minus bce']:+.3f} on {row['data']}" for row in each)
        verdict = "at most" if len(held) == len(each) else "not always at most"
        lines.append(
            f"- `softmax` with `{method}`: the ECE is {verdict} {ALLOWED} above that of `bce` ({numbers}). The order, "
            "and so nDCG, does not change."
        )
    for loss in dict.fromkeys(row["loss"] for row in rows if row["loss"] not in ("softmax", "bce")):
        each = [row for row in rows if row["loss"] == loss and row["calibration"] == "none"]
        numbers = ", ".join(
            f"ECE {row['ece minus bce']:+.3f} and nDCG@10 {row['ndcg minus softmax']:+.3f} on {row['data']}"
            for row in each
        )
        lines.append(f"- `{loss}` without calibration, compared with `bce` (ECE) and `softmax` (nDCG@10): {numbers}.")
    return "\n".join(lines)
