"""Time every loss in plain PyTorch, as multiples of softmax: `python benchmarks/plain_losses.py`.

Correctness comes first: each value must equal the plain-Python reference of the tests, each gradient the central
differences, and both must be right in float32 at full size; otherwise no time is printed. Times are medians of
interleaved runs of forward and backward pass, in processor time, which other programs disturb less. Memory that a loss
keeps for its gradient is counted once per storage. The documentation reads `--out docs/tables/plain-losses.json`.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from setting import where
from torch import Tensor
from turns import in_turns

from rankgrad import backend, losses

ROOT = Path(__file__).parents[1]
SHAPES = ((64, 240), (8, 1000))
OPTIONS: dict[str, dict[str, Any]] = {"rmse": {"levels": 5}}
TOO_LARGE = 4 << 30  # bytes; a loss that keeps more for its gradient is left out

Loss = Callable[..., Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the table to this JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    contenders = {name: made(name) for name in losses.__all__}
    with backend("plain"):
        for name, loss in contenders.items():
            check_small(name, loss)
        rows = {name: {"loss": name} for name in contenders}
        for shape in SHAPES:
            measure(contenders, shape, arguments.repeats, rows)
    table = {
        "setting": f"commit {where()}",
        "shapes": [f"{lists} x {n}" for lists, n in SHAPES],
        "rows": list(rows.values()),
    }
    show(table)
    if arguments.out:
        aside = arguments.out.with_suffix(".part")
        aside.write_text(json.dumps(table, indent=1) + "\n")
        aside.replace(arguments.out)


def made(name: str) -> Loss:
    loss = getattr(losses, name)
    if isinstance(loss, type):
        return loss()
    return lambda scores, labels, **options: loss(scores, labels, **OPTIONS.get(name, {}), **options)


def data(lists: int, n: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return normal scores and skewed labels, as in web search; every list has a relevant document."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(lists, n, generator=generator, dtype=torch.float64)
    grades = torch.tensor([0.5, 0.3, 0.13, 0.05, 0.02])
    labels = torch.multinomial(grades.expand(lists, -1), n, replacement=True, generator=generator)
    labels[:, 0] = 2
    return scores.to(dtype), labels


def check_small(name: str, loss: Loss) -> None:
    """Compare, on short lists in float64, the value with plain loops and the gradient with central differences."""
    sys.path.insert(0, str(ROOT / "tests"))
    import references

    scores, labels = data(3, 14, torch.float64)
    expected = [
        getattr(references, name)(s, y, **OPTIONS.get(name, {}))
        for s, y in zip(scores.tolist(), labels.tolist(), strict=True)
    ]
    refuse(name, "value", loss(scores, labels, reduction="none"), torch.tensor(expected, dtype=torch.float64), 1e-6)
    if name.startswith("smooth_"):
        return  # their gradient treats a product as constant, on purpose; the tests check it
    leaf = scores.clone().requires_grad_()
    gradient = torch.autograd.grad(loss(leaf, labels, reduction="sum"), leaf)[0]
    step = 1e-6
    moves = step * torch.eye(scores.numel(), dtype=torch.float64).reshape(-1, *scores.shape)
    with torch.no_grad():
        numeric = [
            (loss(scores + e, labels, reduction="sum") - loss(scores - e, labels, reduction="sum")) for e in moves
        ]
    refuse(name, "gradient", gradient, torch.stack(numeric).reshape(scores.shape) / (2 * step), 1e-6)


def check_large(name: str, loss: Loss, shape: tuple[int, int]) -> None:
    """Compare float32 with float64 at full size."""
    found = {}
    for dtype in (torch.float32, torch.float64):
        scores, labels = data(*shape, dtype)
        scores.requires_grad_()
        value = loss(scores, labels)
        found[dtype] = value.double(), torch.autograd.grad(value, scores)[0].double()
    for what, single, double in zip(("value", "gradient"), *found.values(), strict=True):
        refuse(name, f"{what} at {shape}", single, double, 1e-3)


def refuse(name: str, what: str, ours: Tensor, expected: Tensor, tolerance: float) -> None:
    # The mean and not the maximum: hinge and list_ap have kinks, and a few scores are on different sides of them.
    off = float((ours - expected).detach().abs().mean() / expected.detach().abs().mean().clamp(min=1e-9))
    if not off <= tolerance:
        sys.exit(f"{name}: {what} is off by {off:.2g}; no times are printed")


def measure(contenders: dict[str, Loss], shape: tuple[int, int], repeats: int, rows: dict[str, dict[str, Any]]) -> None:
    scores, labels = data(*shape)
    key = "{} x {}".format(*shape)
    kept = {name: kept_bytes(name, loss, shape) for name, loss in contenders.items()}
    running = {name: loss for name, loss in contenders.items() if kept[name] <= TOO_LARGE}
    for name, loss in running.items():
        check_large(name, loss, shape)  # also warms up
    leaf = scores.clone().requires_grad_()
    steps = {name: partial(gradient, loss, leaf, labels) for name, loss in running.items()}
    times = {name: each.cpu for name, each in in_turns(steps, repeats).items()}
    unit = statistics.median(times["softmax"])
    for name in contenders:
        row: dict[str, Any] = {"kept_mb": round(kept[name] / 1e6, 1)}
        if name in times:
            low, *_, high = sorted(times[name])
            row["ms"] = round(1e3 * statistics.median(times[name]), 3)
            row["spread_ms"] = round(1e3 * (high - low) / 2, 3)
            row["ratio"] = round(statistics.median(times[name]) / unit, 1)
        rows[name][key] = row


def gradient(loss: Loss, scores: Tensor, labels: Tensor) -> None:
    torch.autograd.grad(loss(scores, labels), scores)


def kept_bytes(name: str, loss: Loss, shape: tuple[int, int]) -> int:
    """Return the bytes kept between forward and backward; for SoftRank (cubic), extrapolated from short lists."""
    if name == "softrank_ndcg" and shape[1] > 60:
        return kept_bytes(name, loss, (shape[0], 60)) * (shape[1] ** 3 // 60**3)
    scores, labels = data(*shape)
    scores.requires_grad_()
    kept: dict[int, int] = {}
    alive = []  # storages must stay alive while they are counted: a freed address could be used again

    def keep(tensor: Tensor) -> Tensor:
        alive.append(tensor)
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss(scores, labels)
    return sum(kept.values())


def show(table: dict[str, Any]) -> None:
    print("forward + backward, float32, plain; ratio to softmax in the same run;", table["setting"])
    for row in table["rows"]:
        cells = []
        for shape in table["shapes"]:
            cell = row[shape]
            time_of = f"{cell['ms']:9.2f} ms +- {cell['spread_ms']:.2f} ({cell['ratio']:.1f}x)" if "ms" in cell else "-"
            cells.append(f"{shape}: {time_of:38} {cell['kept_mb']:9.1f} MB")
        print(f"{row['loss']:17}", *cells)


if __name__ == "__main__":
    main()
