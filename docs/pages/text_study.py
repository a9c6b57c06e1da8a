"""Page about the study of losses and systems on text: Cranfield and Vaswani, memory of long lists, distillation."""

import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from rankgrad.experiments.statistics import holm, paired_t

from .measurements import read, where
from .templates import fill, table

RESULTS = Path(__file__).parents[1] / "studies" / "text-study.json.xz"
COLLECTIONS = {"cranfield": "Cranfield", "vaswani": "Vaswani"}
SYSTEMS = {
    "bm25": "BM25",
    "untrained": "bi-encoder, as it comes",
    "bi_encoder": "bi-encoder",
    "warm_start": "cross-encoder, warm start only",
    "cross_encoder": "cross-encoder",
    "peer": "cross-encoder, sentence-transformers",
    "learned_fusion": "linear ranker on all scores",
}
HEADS = ["nDCG@10", "nDCG@20", "MAP", "P@10"]

# Values of a system: metric -> query -> values of the seeds.
Values = dict[str, dict[str, list[float]]]


def page() -> str:
    """Return the page."""
    study = json.loads(lzma.decompress(RESULTS.read_bytes()))
    facts, systems = study["facts"], values_by_system(study["cells"])
    ranking = facts["metrics"][0]
    lists = facts["lists"]
    return fill(
        "text-study",
        machine=where(facts),
        cells=str(len(study["cells"])),
        epochs=str(facts["epochs"]["bi_encoder"]),
        rate=f"{facts['rates']['bi_encoder'][0]:g}",
        batch=str(lists["batch_size"]),
        size=str(lists["list_size"]),
        cranfield=results("cranfield", systems, facts["metrics"]),
        vaswani=results("vaswani", systems, facts["metrics"]),
        seeds=missing_seeds(study["cells"]),
        findings=findings(systems, ranking),
        memory=memory(),
        memory_machine=where(read("text-memory")),
        difference=f"{read('text-memory')['largest difference']:.1g}",
        ratio=f"{memory_ratio():.2f}",
        distillation=distillation(),
        distillation_machine=where(read("text-distillation")),
        speed=speed(),
        documents=str(read("text-distillation")["speed documents"]),
    )


def values_by_system(cells: list[dict[str, Any]]) -> dict[tuple[str, str, str, bool], Values]:
    """Return the values of each collection, system and loss; True as last entry of the key: fused with BM25."""
    found: dict[tuple[str, str, str, bool], Values] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for cell in cells:
        for kind, metrics in cell["values"].items():
            system, loss = ("bm25", "") if kind == "bm25" else (cell["system"], cell["loss"])
            for metric, queries in metrics.items():
                for query, value in queries.items():
                    found[cell["collection"], system, loss, kind == "fused"][metric][query].append(value)
    return found


def means(values: Values, metric: str, queries: list[str]) -> Any:
    """Return the mean over the seeds of each query."""
    return np.array([np.mean(values[metric][query]) for query in queries])


def results(collection: str, systems: dict[tuple[str, str, str, bool], Values], metrics: list[str]) -> str:
    """Return the table of one collection; p values are those of paired t-tests, with Holm's correction per column."""
    ranking = metrics[0]
    base = systems[collection, "bm25", "", False]
    queries = sorted(base[ranking])
    rows, tests = [], []
    for system, title in SYSTEMS.items():
        losses = [key[2] for key in systems if key[:2] == (collection, system) and not key[3]]
        for loss in dict.fromkeys(losses):
            values = systems[collection, system, loss, False]
            fused = systems.get((collection, system, loss, True))
            numbers = [f"{100 * means(values, metric, queries).mean():.1f}" for metric in metrics]
            together = f"{100 * means(fused, ranking, queries).mean():.1f}" if fused and system != "bm25" else ""
            ours = means(values, ranking, queries)
            against = [systems[collection, other, "", False] for other in ("bm25", "untrained")]
            tests.append([_p(ours, means(each, ranking, queries)) for each in against])
            rows.append([title, loss, *numbers, together])
    columns = [_corrected([row[place] for row in tests]) for place in (0, 1)]
    rows = [[*row, first, second] for row, first, second in zip(rows, *columns, strict=True)]
    return table(["system", "loss", *HEADS, "nDCG@10 + BM25", "p, BM25", "p, as it comes"], rows)


def _p(a: Any, b: Any) -> float | None:
    return None if np.array_equal(a, b) else float(paired_t(a, b).p)


def _corrected(found: list[float | None]) -> list[str]:
    given = iter(holm([p for p in found if p is not None]).tolist())
    return ["" if p is None else _shown(next(given)) for p in found]


def _shown(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def findings(systems: dict[tuple[str, str, str, bool], Values], metric: str) -> str:
    """Return the sentences that the study was made to answer, with their numbers."""
    lines = []
    for collection, title in COLLECTIONS.items():
        base = systems[collection, "bm25", "", False]
        queries = sorted(base[metric])

        def mean(system: str, loss: str, fused: bool = False, name: str = collection, ids: Any = queries) -> Any:
            return means(systems[name, system, loss, fused], metric, ids)

        bm25, untrained = mean("bm25", ""), mean("untrained", "")
        fused, linear = mean("bi_encoder", "LambdaLoss@10", True), mean("learned_fusion", "")
        lines.append(
            f"- {title}: the fusion of BM25 and the bi-encoder (LambdaLoss@10) is {_gap(fused, bm25)} ahead of BM25 "
            f"(p {_p_text(fused, bm25)} before correction); the linear ranker on all scores, fitted on validation "
            f"queries, is {_gap(linear, bm25)} ahead (p {_p_text(linear, bm25)})."
        )
        best = {loss: mean("bi_encoder", loss) for loss in _losses(systems, collection, "bi_encoder")}
        above = [loss for loss, values in best.items() if values.mean() > untrained.mean()]
        sure = [loss for loss, values in best.items() if (_p(values, untrained) or 1) < 0.05 / len(best)]
        lines.append(
            f"- {title}: of {len(best)} losses, {len(above)} make the bi-encoder better than it comes; "
            f"{len(sure)} of them with p below .05/{len(best)}{': ' + ', '.join(sure) if sure else ''}."
        )
        cross = {loss: mean("cross_encoder", loss) for loss in _losses(systems, collection, "cross_encoder")}
        texts = [f"{loss} {_gap(values, bm25)} (p {_p_text(values, bm25)})" for loss, values in cross.items()]
        lines.append(f"- {title}: cross-encoders against BM25: {'; '.join(texts)}.")
    return "\n".join(lines)


def _losses(systems: Any, collection: str, system: str) -> list[str]:
    return list(dict.fromkeys(key[2] for key in systems if key[:2] == (collection, system)))


def _gap(a: Any, b: Any) -> str:
    return f"{100 * (a - b).mean():+.1f}"


def _p_text(a: Any, b: Any) -> str:
    p = float(paired_t(a, b).p)
    return f"= {p:.1g}" if p >= 1e-6 else "< 1e-6"


def missing_seeds(cells: list[dict[str, Any]]) -> str:
    """Return a sentence about the number of seeds of each loss."""
    seeds: dict[tuple[str, str], set[int]] = defaultdict(set)
    done = {(cell["collection"], cell["system"], cell["loss"], cell["seed"], cell["fold"]) for cell in cells}
    for _, system, loss, seed, _ in done:
        seeds[system, loss].add(seed)
    several = sorted(loss for (system, loss), found in seeds.items() if system == "bi_encoder" and len(found) > 1)
    most = max(map(len, seeds.values()))
    missing = sorted(
        {
            (seed, fold)
            for collection in COLLECTIONS
            for loss in several
            for seed in range(most)
            for fold in range(1, 6)
            if (collection, "bi_encoder", loss, seed, fold) not in done
        }
    )
    text = f"The bi-encoder has {most} seeds with {', '.join(several)}, and one seed otherwise; values are means over "
    text += "the seeds."
    if missing:
        text += " Not run: " + ", ".join(f"seed {seed} of fold {fold}" for seed, fold in missing) + "."
    return text


def memory() -> str:
    """Return the table of memory and time of a training step."""
    rows = []
    for row in read("text-memory")["rows"]:
        values = [f"{row['seconds']:.2f}", f"{row['MB extra']:,.0f}"] if "seconds" in row else [row["failed"], ""]
        rows.append([str(row["documents"]), row["method"], *values])
    return table(["documents", "method", "seconds per step", "MB for the step"], rows)


def memory_ratio() -> float:
    """Return the memory of the longest list by that of the shortest, in chunks."""
    found = {row["documents"]: row["MB extra"] for row in read("text-memory")["rows"] if row["method"] == "chunks"}
    return float(found[max(found)] / found[min(found)])


def distillation() -> str:
    """Return the table of students and teachers."""
    found = read("text-distillation")
    names = {"encoder": (found["teacher"], found["student"]), "static": (found["student"], "embedding table")}
    rows = []
    for row in found["rows"]:
        teacher, student = names[row["what"]]
        numbers = [f"{100 * row['means'][name]:.1f}" for name in ("teacher", "before", "student")]
        gaps = [_interval(row[name]) for name in ("student - teacher", "student - before")]
        rows.append([COLLECTIONS[row["collection"]], f"{_named(student)} from {_named(teacher)}", *numbers, *gaps])
    heads = ["", "student", "teacher", "before", "distilled", "minus teacher", "minus before"]
    return table(heads, rows)


def speed() -> str:
    """Return the table of documents per second."""
    rows = []
    for row in read("text-distillation")["speed"]:
        device = f"CPU, {row['threads']} threads" if row["device"] == "cpu" else "GPU"
        rates = row["documents per second"]
        rows.append([device, *(f"{rates[name]:,.0f}" for name in ("teacher", "student", "static"))])
    return table(["", "mpnet", "MiniLM", "embedding table"], rows)


def _named(text: str) -> str:
    return {"mpnet16": "mpnet", "minilm": "MiniLM"}.get(text, text)


def _interval(found: dict[str, float]) -> str:
    return f"{100 * found['mean']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"
