"""Measure memory and time of a training step of a cross-encoder on long lists: `python studies/text/memory.py`.

Correctness comes first: nothing is printed unless the gradient in chunks equals the gradient of the same chunks in one
graph, in float32 and with dropout. Then one step (scores, loss, backward pass, AdamW) is measured for lists of several
lengths: `ListwiseLoss` with chunks, `ListwiseLoss` in one graph, and LambdaLoss of sentence-transformers, whose
`mini_batch_size` is the size of the chunks. Every document has the full length in tokens. Each measurement runs in a
separate process on a CPU, because the peak memory of a process never decreases.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from peak_memory import forget_peak, memory, peak
from setting import setting
from torch import Tensor, nn

import rankgrad.text.losses as text_losses

ALLOWED = 1e-5  # largest relative difference of two gradients
METHODS = ("chunks", "one graph", "sentence-transformers")
WORDS = [f"word{number}" for number in range(500)]


def main() -> None:
    """Check the gradients, run all measurements, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", help="Hugging Face folder; default: a random BERT, 6 layers, 384 wide")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--length", type=int, default=256, help="tokens per pair of query and document")
    parser.add_argument("--chunk", type=int, default=32, help="pairs that the model scores at a time")
    parser.add_argument("--documents", type=int, nargs="+", default=[32, 100, 316, 1000], help="lengths of the lists")
    parser.add_argument("--repeats", type=int, default=3, help="steps per measurement")
    parser.add_argument("--out", type=Path, help="file for the results")
    parser.add_argument("--measure", nargs=2, metavar=("METHOD", "DOCUMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options, options.measure[0], int(options.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        name = options.encoder or "random BERT, 6 layers, 384 wide"
        options.encoder = options.encoder or str(random_encoder(folder, options.length))
        facts = {
            "encoder": Path(name).name if Path(name).exists() else name,
            **check(options),
            **setting(options.device),
        }
        found = {**facts, "length": options.length, "chunk": options.chunk, "rows": []}
        print(
            f"{found['encoder']}, {found['parameters']:,} parameters, {options.length} tokens per pair, chunks of "
            f"{options.chunk}; gradients differ by {found['largest difference']:.1e}, at most {ALLOWED:.0e} allowed"
        )
        print(f"{found['chip']}, torch {found['torch']}, commit {found['commit']}")
        print(f"{'documents':>9}  {'method':<22} {'seconds':>8} {'MB extra':>9} {'MB in all':>9}")
        for documents in options.documents:
            for method in METHODS:
                row = run(options, method, documents)
                found["rows"].append(row)
                values = row.get("failed") or f"{row['seconds']:8.3f} {row['MB extra']:9,.0f} {row['MB in all']:9,.0f}"
                print(f"{documents:>9}  {method:<22} {values}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def random_encoder(folder: str, length: int) -> Path:
    """Write a BERT with random weights, of the size of a MiniLM with 6 layers."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from tiny_encoder import tiny_encoder

    return tiny_encoder(folder, words=WORDS, hidden=384, layers=6, heads=12, inner=1536, positions=max(length, 512))


def run(options: argparse.Namespace, method: str, documents: int) -> dict[str, Any]:
    """Measure, on a CPU in a new process, and return the row; its entry `failed` is the reason of a failure."""
    if options.device == "cuda":
        try:
            return measure(options, method, documents)
        except torch.OutOfMemoryError:
            return {"method": method, "documents": documents, "failed": "out of memory"}
        finally:
            gc.collect()
            torch.cuda.empty_cache()
    kept = ["encoder", "device", "length", "chunk", "repeats"]
    given = [text for name in kept for text in (f"--{name}", str(getattr(options, name)))]
    command = [sys.executable, __file__, *given, "--measure", method, str(documents)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode == 0:
        row: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        return row
    lines = answer.stderr.strip().splitlines() or [f"exit status {answer.returncode}"]
    reason = "out of memory" if "out of memory" in lines[-1].lower() or answer.returncode == -9 else lines[-1]
    return {"method": method, "documents": documents, "failed": reason}


def measure(options: argparse.Namespace, method: str, documents: int) -> dict[str, Any]:
    """Measure steps on a list, after two steps on a short list, which also allocate the state of AdamW."""
    model = cross_encoder(options)
    loss = loss_of(method, model, options.chunk)
    optimiser = torch.optim.AdamW(loss.parameters(), lr=1e-5)
    for _ in range(2):
        step(loss, optimiser, batch(min(options.chunk, 32), options), options.device)
    before = memory(options.device)
    forget_peak(options.device)
    given = batch(documents, options)
    times = [step(loss, optimiser, given, options.device) for _ in range(options.repeats)]
    highest = peak(options.device)
    return {
        "method": method,
        "documents": documents,
        "seconds": statistics.median(times),
        "spread": (max(times) - min(times)) / 2,
        "MB extra": (highest - before) / 1e6,
        "MB in all": highest / 1e6,
    }


def cross_encoder(options: argparse.Namespace) -> Any:
    """Return the cross-encoder in training mode, with a new head."""
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    return CrossEncoder(options.encoder, num_labels=1, max_length=options.length, device=options.device).train()


def loss_of(method: str, model: Any, chunk: int) -> nn.Module:
    """Return the loss of a method."""
    if method == "sentence-transformers":
        from sentence_transformers.cross_encoder.losses import LambdaLoss

        loss: nn.Module = LambdaLoss(model, k=10, mini_batch_size=chunk)
        return loss
    return text_losses.ListwiseLoss(model, "lambdaloss@10", chunk=chunk if method == "chunks" else 10**9)


def batch(documents: int, options: argparse.Namespace) -> tuple[list[Any], list[Tensor]]:
    """Return one list, in the form that losses of sentence-transformers take. Few documents are relevant."""
    generator = torch.Generator().manual_seed(documents)
    drawn = torch.randint(len(WORDS), (documents, options.length), generator=generator).tolist()
    texts = [" ".join(WORDS[number] for number in numbers) for numbers in drawn]
    labels = torch.randint(1, 4, (documents,), generator=generator) * (torch.arange(documents) % 8 == 0)
    return [["word1 word2 word3"], [texts]], [labels.to(options.device)]


def step(loss: nn.Module, optimiser: torch.optim.Optimizer, given: tuple[Any, Any], device: str) -> float:
    """Train for one step, and return the seconds."""
    start = time.perf_counter()
    loss(*given).backward()
    optimiser.step()
    optimiser.zero_grad()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def check(options: argparse.Namespace) -> dict[str, Any]:
    """Compare the gradient in chunks with that of the same chunks in one graph; if they differ, end the program.

    The difference is the norm of the difference by the norm of the gradient, for the worst parameter. Parameters whose
    gradient is rounding only, such as the biases of keys, do not count.
    """
    model = cross_encoder(options)
    loss, given = loss_of("chunks", model, options.chunk), batch(3 * options.chunk + 1, options)
    ours = gradients(loss, given)
    in_chunks = text_losses.chunked
    try:
        text_losses.chunked = lambda network, chunks, **_: torch.cat([network(chunk) for chunk in chunks])
        plain = gradients(loss, given)
    finally:
        text_losses.chunked = in_chunks
    other = gradients(loss, given, seed=1)
    total = torch.stack([each.norm() for each in plain]).norm()
    counted = [place for place, each in enumerate(plain) if each.norm() > 1e-6 * total]
    difference = max(float((ours[place] - plain[place]).norm() / plain[place].norm()) for place in counted)
    if not difference <= ALLOWED:
        sys.exit(f"gradients in chunks and in one graph differ by {difference:.2g}; nothing is measured")
    if all(torch.equal(one, two) for one, two in zip(ours, other, strict=True)):
        warnings.warn("the encoder has no dropout, so the check does not cover dropout", stacklevel=1)
    import sentence_transformers
    import transformers

    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "largest difference": difference,
        "sentence-transformers": sentence_transformers.__version__,
        "transformers": transformers.__version__,
    }


def gradients(loss: nn.Module, given: tuple[Any, Any], seed: int = 0) -> list[Tensor]:
    """Return the gradient of each parameter that has one."""
    loss.zero_grad()
    torch.manual_seed(seed)
    loss(*given).backward()
    return [parameter.grad.clone() for parameter in loss.parameters() if parameter.grad is not None]


if __name__ == "__main__":
    main()
