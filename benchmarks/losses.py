"""Time losses, forward and backward in float32, fused, plain and textbook forms: `python benchmarks/losses.py`.

Correctness comes first: the value and the gradient of every contender are compared with plain in float64, and a wrong
one gets no time. If the n x n matrices of plain do not fit (one list of 65,536 documents), the truth is the CPU kernel
in float64, which was compared with plain at the other shapes. Times are medians of interleaved samples of a whole
public call with its backward pass, and of `value_and_grad`, which needs none. On a GPU, also the times of a replay
inside a CUDA graph, of a call whose backward pass stays in the calling thread, and of an autograd function that does
nothing are measured.

`--all` takes every loss, `--only NAME ...` some; `--long` is a list of 100,000 documents with the peak memory.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import baseline
import long_list
import torch
from contenders import Contender, Wrong, check, graphed, in_one_call, once, peak_memory, sample, step, uses_kernel
from rich.console import Console
from rich.table import Table
from setting import setting
from torch import Tensor

from rankgrad import losses

GRADES = (0.515, 0.325, 0.134, 0.018, 0.008)  # shares of the labels 0 to 4 in web search
CPU_SHAPES = ((64, 240), (8, 1000))
CUDA_SHAPES = (*CPU_SHAPES, (64, 1000), (1, 65_536))
COMPILED = (64, 240)  # the shape at which plain is compiled
LINEAR = frozenset({"softmax", "listnet", "xe_ndcg", "poly1_softmax", "listmle", "p_listmle", "rank_cosine"})


class Case(NamedTuple):
    """A loss to measure, and its textbook form."""

    loss: Callable[..., Tensor]
    textbook: Callable[..., Tensor] | None = None
    longest: int = 1_000_000  # largest number of documents per list that is tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--all", action="store_true", help="every loss instead of the nine of the table")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these losses")
    parser.add_argument("--long", action="store_true", help="one list of 100,000 documents, with the peak memory")
    parser.add_argument("--compiled", action="store_true", help="also plain under torch.compile, which takes minutes")
    parser.add_argument("--repeats", type=int, default=9, help="number of samples of each contender")
    parser.add_argument("--threads", type=int, help="number of CPU threads (default: PyTorch's choice)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda":
        from rankgrad.kernels.cuda import native

        native.wait()
    if arguments.long:
        rows = long_list.rows(arguments.device)
    else:
        known = chosen(arguments.device, arguments.all or bool(arguments.only))
        names = arguments.only or list(known)
        shapes = CUDA_SHAPES if arguments.device == "cuda" else CPU_SHAPES
        todo = [(name, shape) for name in names for shape in shapes if shape[1] <= known[name].longest]
        how = (arguments.device, arguments.repeats, arguments.compiled)
        rows = []
        for name, shape in todo:
            rows.append(measure(name, known[name], *shape, *how))
            if arguments.json:  # keep the rows if a later one fails
                arguments.json.write_text(json.dumps(rows, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    show(rows)


def chosen(device: str, every: bool) -> dict[str, Case]:
    """Return the losses of the table, or all losses."""
    learn = losses.LearnDCG().to(device)
    cases = {"nothing": Case(nothing, longest=240)} if device == "cuda" else {}
    cases |= {
        "ranknet": Case(losses.ranknet, baseline.ranknet),
        "approx_ndcg": Case(losses.approx_ndcg, baseline.approx_ndcg),
        "LearnDCG": Case(
            learn, lambda scores, labels: baseline.learn_dcg(scores, labels, learn.gain_base, learn.alpha)
        ),
        "lambdarank": Case(losses.lambdarank, baseline.lambdarank),
        "lambdaloss@5": Case(partial(losses.lambdaloss, k=5), baseline.lambdaloss_at_5),
        "neural_ndcg": Case(losses.neural_ndcg, baseline.neural_ndcg, longest=1000),
        "smooth_ndcg": Case(losses.smooth_ndcg, baseline.smooth_ndcg, longest=1000),
        "listmle": Case(losses.listmle),
        "listmle:ties=position": Case(partial(losses.listmle, ties="position"), baseline.listmle),
        "softmax": Case(losses.softmax, baseline.softmax),
    }
    if device == "cuda":  # it has no kernel there: the time of plain
        cases["fastsort_ndcg"] = Case(losses.fastsort_ndcg, longest=240)
    if every:
        # O(n^3), many stored rounds, or a Python loop over lists: long lists of these are not interesting.
        longest = {"softrank_ndcg": 100, "ot_ndcg": 1000, "fastsort_ndcg": 1000, "smooth_ap": 240}
        options: dict[str, dict[str, Any]] = {"rmse": {"levels": 4}}
        for name in losses.__all__:
            loss = partial(getattr(losses, name), **options.get(name, {}))
            if name not in cases:
                cases[name] = Case(loss, longest=longest.get(name, 1000 if name not in LINEAR else 1_000_000))
    return cases


def data(lists: int, documents: int, device: str) -> tuple[Tensor, Tensor]:
    """Return normal scores and skewed labels, with a relevant document in every list."""
    generator = torch.Generator().manual_seed(lists * documents)
    scores = torch.randn(lists, documents, generator=generator)
    labels = torch.multinomial(torch.tensor(GRADES).expand(lists, -1), documents, True, generator=generator)
    labels[:, 0] = 1
    return scores.to(device), labels.float().to(device)


def measure(
    name: str, case: Case, lists: int, documents: int, device: str, repeats: int, compiled: bool
) -> dict[str, Any]:
    """Return one row of the table; wrong or missing contenders have no time."""
    scores, labels = data(lists, documents, device)
    quadratic_fits = documents <= 2000 or name in LINEAR
    contenders = candidates(case, scores, labels, quadratic_fits, device, compiled)
    if quadratic_fits:
        truth = once(step(case.loss, scores.double(), labels, "plain"))
    else:
        truth = once(step(_on_cpu(case.loss), scores.double().cpu(), labels.cpu(), "fused"))
    row: dict[str, Any] = {"loss": name, "lists": lists, "documents": documents, **setting(device)}
    right = {}
    for kind, contender in contenders.items():
        try:
            check(contender, truth)
            right[kind] = contender
        except (Wrong, RuntimeError) as wrong:  # RuntimeError: out of memory, or cannot be compiled
            row.setdefault("refused", {})[kind] = str(wrong).strip().split("\n")[0]
    for kind, (middle, spread) in sample(right, repeats, device).items():
        row[kind] = {"seconds": middle, "spread": spread}
    for other in ("plain", "baseline", "compiled"):
        if "fused" in row and other in row:
            row[f"times {other}"] = row[other]["seconds"] / row["fused"]["seconds"]
    if device == "cuda" and "fused" in right:
        row["bytes a document"] = peak_memory(right["fused"]) / (lists * documents)
    print(_line(row))
    return row


def candidates(
    case: Case, scores: Tensor, labels: Tensor, quadratic_fits: bool, device: str, compiled: bool
) -> dict[str, Contender]:
    """Return the contenders at this shape, by kind."""
    found = {}
    if case.loss is nothing or uses_kernel(case.loss, scores, labels):
        found["fused"] = step(case.loss, scores, labels, "fused")
        if case.loss is not nothing:
            found["value_and_grad"] = in_one_call(case.loss, scores, labels)
        if device == "cuda":
            found["one thread"] = in_one_thread(step(case.loss, scores, labels, "fused"))
            found["graph"] = graphed(step(case.loss, scores, labels, "fused"))
    if case.loss is nothing:
        return found
    if quadratic_fits:
        found["plain"] = step(case.loss, scores, labels, "plain")
        if case.textbook is not None:
            found["baseline"] = step(case.textbook, scores, labels, "plain", exact=False)
        if compiled and scores.shape == COMPILED:
            loss = case.loss
            torch.compiler.reset()  # forget earlier ones: it stops compiling after eight versions of one function
            whole = torch.compile(lambda *batch: loss(*batch), dynamic=False)
            found["compiled"] = step(whole, scores, labels, "plain")
    return found


class Nothing(torch.autograd.Function):
    """Value 0 with gradient 0: the time that PyTorch needs for a forward and a backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        """Return 0."""
        ctx.save_for_backward(scores)
        return scores.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensor:
        """Return 0."""
        return torch.zeros_like(ctx.saved_tensors[0])


def nothing(scores: Tensor, labels: Tensor) -> Tensor:
    """Return 0: a loss without work."""
    value: Tensor = Nothing.apply(scores)
    return value


def in_one_thread(eager: Contender) -> Contender:
    """Make a contender without the separate thread in which PyTorch runs a backward pass on a GPU."""

    def run() -> None:
        with torch.autograd.set_multithreading_enabled(False):
            eager.run()

    return Contender(run, eager.outcome, eager.backend)


def _on_cpu(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return loss if not isinstance(loss, torch.nn.Module) else losses.LearnDCG()


def _line(row: dict[str, Any]) -> str:
    """Return a row as text, with commit, version and chip."""
    times = [
        f"{kind} {_time(row, kind)}"
        for kind in ("graph", "value_and_grad", "fused", "one thread", "plain", "baseline", "compiled")
        if kind in row
    ]
    refused = [f"{kind} is wrong, not timed: {why}" for kind, why in row.get("refused", {}).items()]
    where = f"{row['commit']}, torch {row['torch']}, {row['chip']}"
    return f"{row['loss']} {row['lists']} x {row['documents']}: {'; '.join([*times, *refused])} [{where}]"


def _time(row: dict[str, Any], kind: str) -> str:
    if kind not in row:
        return "wrong" if kind in row.get("refused", {}) else "-"
    seconds, spread = row[kind]["seconds"], row[kind]["spread"]
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} ± {spread * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ± {spread * 1e3:.2f} ms"


def show(rows: list[dict[str, Any]]) -> None:
    """Print the short table."""
    if not rows:
        return
    if "MB extra" in rows[0]:
        kinds, ratios = ["fused"], ["MB extra", "MB in all"]
    else:
        kinds, ratios = ["value_and_grad", "fused", "plain", "baseline"], ["times plain", "times baseline"]
        if any("graph" in row for row in rows):
            kinds, ratios = ["graph", *kinds[:2], "one thread", *kinds[2:]], [*ratios, "bytes a document"]
        if any("compiled" in row for row in rows):
            kinds.append("compiled")
    table = Table(title=f"{rows[0]['commit']}, torch {rows[0]['torch']}, {rows[0]['chip']}")
    table.add_column("loss")
    for column in ("lists x documents", *kinds, *ratios):
        table.add_column(column.replace("bytes a document", "bytes per document"), justify="right")
    for row in rows:
        shape = f"{row['lists']} x {row['documents']:,}"
        numbers = [f"{row[name]:.1f}" if name in row else "-" for name in ratios]
        table.add_row(row["loss"], shape, *(_time(row, kind) for kind in kinds), *numbers)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    main()
