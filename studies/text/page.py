"""Page about the study of losses and systems on text: Cranfield and Vaswani, memory of long lists, distillation."""

import json
import lzma
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from pages.measurements import read, where
from pages.templates import fill, paragraph, table

from rankgrad.experiments.seed_variance import RunValues, compare_runs
from rankgrad.experiments.statistics import holm

HERE = Path(__file__).parent
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
FIXED = ("bm25", "untrained")  # systems without training
FINE_TUNED = ("bi_encoder", "cross_encoder", "peer")
FUSED_LOSS = "LambdaLoss@10"
PARTS = (("bm25", ""), ("untrained", ""), ("bi_encoder", FUSED_LOSS), ("cross_encoder", FUSED_LOSS))
LEVEL = 0.05
# Facts about a commit that its result files do not contain.
NOTES = {
    "98e798d": "At this commit, the metric that chooses the epoch did not count relevant documents that BM25 did not "
    "find, neither for our losses nor for those of sentence-transformers. The script did not write the versions to the "
    "results: they were added later, from the output of the same machine."
}
HEADS = ["nDCG@10", "nDCG@20", "MAP", "P@10"]

# Values of a system: metric -> query -> values of the seeds.
Values = dict[str, dict[str, list[float]]]
# System, loss and True for the fusion with BM25 -> values of the seeds and queries.
Columns = dict[tuple[str, str, bool], RunValues]
# Collection and query -> fold.
Folds = dict[tuple[str, str], int]


def page() -> str:
    """Return the page."""
    study = json.loads(lzma.decompress((HERE / "results.json.xz").read_bytes()))
    facts, systems, folds = study["facts"], values_by_system(study["cells"]), folds_of(study["cells"])
    ranking = facts["metrics"][0]
    lists = facts["lists"]
    return fill(
        HERE / "template.md",
        machine=f"{where(facts)}, transformers {facts['transformers']}",
        cells=str(len(study["cells"])),
        notes=paragraph(NOTES.get(facts["commit"], "")),
        epochs=str(facts["epochs"]["bi_encoder"]),
        rate=f"{facts['rates']['bi_encoder'][0]:g}",
        batch=str(lists["batch_size"]),
        size=str(lists["list_size"]),
        cranfield=results("cranfield", systems, facts["metrics"], folds),
        vaswani=results("vaswani", systems, facts["metrics"], folds),
        seeds=seeds_of(study["cells"]),
        findings=findings(systems, ranking, folds),
        memory=memory(),
        memory_machine=where(read(HERE / "memory.json")),
        difference=f"{read(HERE / 'memory.json')['largest difference']:.1g}",
        ratio=memory_ratio(),
        distillation=distillation(),
        not_run=not_distilled(),
        distillation_epochs=str(read(HERE / "distillation.json")["epochs"]),
        distillation_machine=where(read(HERE / "distillation.json")),
        speed=speed(),
        documents=str(read(HERE / "distillation.json")["speed documents"]),
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


def folds_of(cells: list[dict[str, Any]]) -> Folds:
    """Return the fold of each query."""
    return {
        (cell["collection"], query): cell["fold"]
        for cell in cells
        for metrics in cell["values"].values()
        for queries in metrics.values()
        for query in queries
    }


def columns(systems: dict[tuple[str, str, str, bool], Values], collection: str, metric: str, folds: Folds) -> Columns:
    """Return the values of all seeds and queries of a collection, for each ranker."""
    queries = sorted(systems[collection, "bm25", "", False][metric])
    found: Columns = {}
    for system in SYSTEMS:
        for (name, kind, loss, fused), values in systems.items():
            if (name, kind) == (collection, system):
                runs = np.array([values[metric][query] for query in queries]).T  # (seeds, queries)
                if system in FIXED:  # the same values are in the cells of all seeds
                    runs = runs[:1]
                found[system, loss, fused] = RunValues(runs, [folds[collection, query] for query in queries])
    return found


def results(
    collection: str, systems: dict[tuple[str, str, str, bool], Values], metrics: list[str], folds: Folds
) -> str:
    """Return the table of one collection; p values are those of t-tests, with Holm's correction per column."""
    every = {metric: columns(systems, collection, metric, folds) for metric in metrics}
    found = every[metrics[0]]
    tests = [corrected(found, other) for other in ("bm25", "untrained")]
    rows = []
    for system, loss, fused in found:
        if not fused:
            key = (system, loss)
            numbers = [_points(every[metric][(*key, False)]) for metric in metrics]
            together = _points(found[(*key, True)]) if (*key, True) in found else ""
            shown = [_shown(test[key]) if key in test else "" for test in tests]
            rows.append([SYSTEMS[system], loss, *numbers, together, *shown])
    return table(["system", "loss", *HEADS, "nDCG@10 + BM25", "p, BM25", "p, as it comes"], rows)


def corrected(found: Columns, other: str) -> dict[tuple[str, str], float]:
    """Return the p value of each ranker against another system, with Holm's correction over the rankers."""
    keys = [(system, loss) for system, loss, fused in found if not fused and system != other]
    base = found[other, "", False]
    return _holm({key: (found[(*key, False)], base) for key in keys})


def _holm(pairs: dict[Any, tuple[Any, Any]]) -> dict[Any, float]:
    return dict(zip(pairs, holm([compare_runs(*pair).p for pair in pairs.values()]).tolist(), strict=True))


def findings(systems: dict[tuple[str, str, str, bool], Values], metric: str, folds: Folds) -> str:
    """Return the sentences that the study was made to answer, with their numbers."""
    blocks = []
    for collection, title in COLLECTIONS.items():
        found = columns(systems, collection, metric, folds)
        sentences = (not_better(found), fusion(found), adding_bm25(found), between_losses(found), linear_ranker(found))
        blocks += [f"### {title}", comparisons(found), "\n".join(f"- {sentence}" for sentence in sentences)]
    return "\n\n".join(blocks)


def comparisons(found: Columns) -> str:
    """Return a table: the losses of each fine-tuned system, against BM25 and against the encoder as it comes."""
    rows = []
    for other, title in (("bm25", "BM25"), ("untrained", "as it comes")):
        p, base = corrected(found, other), found[other, "", False]
        for system in FINE_TUNED:
            gaps = {key[1]: found[key].mean - base.mean for key in found if key[0] == system and not key[2]}
            if gaps:
                better = [loss for loss, gap in gaps.items() if gap > 0 and p[system, loss] < LEVEL]
                worse = [loss for loss, gap in gaps.items() if gap < 0 and p[system, loss] < LEVEL]
                spread = f"{_signed(min(gaps.values()))} to {_signed(max(gaps.values()))}"
                higher = f"{sum(gap > 0 for gap in gaps.values())} of {len(gaps)}"
                listed = [_listed(losses, len(gaps)) for losses in (better, worse)]
                rows.append([SYSTEMS[system], title, spread, higher, *listed])
    return table(
        ["system", "against", "difference", "higher mean", "significantly better", "significantly worse"], rows
    )


def not_better(found: Columns) -> str:
    """Count the fine-tuned rankers without a significant improvement."""
    texts = []
    for other, title in (("bm25", "BM25"), ("untrained", "the encoder as it comes")):
        p, base = corrected(found, other), found[other, "", False]
        tuned = [key for key in found if key[0] in FINE_TUNED and not key[2]]
        sure = [key for key in tuned if p[key[:2]] < LEVEL and found[key].mean > base.mean]
        texts.append(f"{len(tuned) - len(sure)} of {len(tuned)} against {title}")
    return f"Fine-tuned rankers that are not significantly better: {', '.join(texts)}."


def fusion(found: Columns) -> str:
    """Compare the fusion of BM25 and a bi-encoder with BM25."""
    base, fused = found["bm25", "", False], found["bi_encoder", FUSED_LOSS, True]
    return (
        f"The sum of the z-scores of BM25 and the bi-encoder with {FUSED_LOSS}, minus BM25: "
        f"{_signed(fused.mean - base.mean)} (p {_compared(compare_runs(fused, base).p)}, not corrected)."
    )


def between_losses(found: Columns) -> str:
    """Compare the losses of each kind of encoder with each other, and the two kinds of encoders."""
    texts, kinds = [], {}
    for system in ("bi_encoder", "cross_encoder"):
        kinds[system] = {key[1]: values for key, values in found.items() if key[0] == system and not key[2]}
        losses = sorted(kinds[system], key=lambda loss: -kinds[system][loss].mean)
        pairs = {(a, b): (kinds[system][a], kinds[system][b]) for a, b in combinations(losses, 2)}
        p, first, last = _holm(pairs), losses[0], losses[-1]
        gap = kinds[system][first].mean - kinds[system][last].mean
        texts.append(
            f"{SYSTEMS[system]}: {first} minus {last} is {_signed(gap)} (p {_compared(p[first, last])}), and "
            f"{sum(each < LEVEL for each in p.values())} of {len(p)} pairs of losses differ significantly"
        )
    shared = [loss for loss in kinds["bi_encoder"] if loss in kinds["cross_encoder"]]
    means = [np.mean([values[loss].mean for loss in shared]) for values in kinds.values()]
    gap = means[1] - means[0]
    return (
        f"Best minus worst loss, with Holm's correction over all pairs: {'; '.join(texts)}. With the {len(shared)} "
        f"losses that both have, cross-encoder minus bi-encoder is {_signed(gap)} on average (not tested). The best "
        "and the worst of several losses were chosen by these values, so their difference is too large on average."
    )


def adding_bm25(found: Columns) -> str:
    """Compare the fusion of each fine-tuned ranker and BM25 with the same ranker alone."""
    pairs = {(s, loss): (found[s, loss, True], found[s, loss, False]) for s, loss, f in found if f and s in FINE_TUNED}
    gaps = {key: together.mean - alone.mean for key, (together, alone) in pairs.items()}
    texts = []
    for p in ({key: compare_runs(*pair).p for key, pair in pairs.items()}, _holm(pairs)):
        sure = [gaps[key] for key in pairs if p[key] < LEVEL]
        texts.append(f"{sum(gap < 0 for gap in sure)} lower and {sum(gap > 0 for gap in sure)} higher")
    return (
        f"A fine-tuned ranker plus BM25 by z-scores, minus the same ranker alone: "
        f"{_signed(min(gaps.values()))} to {_signed(max(gaps.values()))}; {sum(gap < 0 for gap in gaps.values())} of "
        f"{len(gaps)} means are lower. Significant without correction: {texts[0]}; with Holm's correction: {texts[1]}."
    )


def linear_ranker(found: Columns) -> str:
    """Name the rankers with the highest means, and compare the linear ranker with its parts."""
    alone = {(system, loss): values for (system, loss, fused), values in found.items() if not fused}
    order = sorted(alone, key=lambda key: -alone[key].mean)[:2]
    first, second = (f"{_titled(key)} ({_points(alone[key])})" for key in order)
    linear, parts = found["learned_fusion", "", False], [found[(*part, False)] for part in PARTS]
    gaps = [linear.mean - part.mean for part in parts]
    p = max(compare_runs(linear, part).p for part in parts)
    return (
        f"Highest means: {first}, then {second}. The linear ranker minus each of its {len(parts)} parts: "
        f"{_signed(min(gaps))} to {_signed(max(gaps))} (the largest p {_compared(p)}, not corrected)."
    )


def _titled(key: tuple[str, str]) -> str:
    return f"{SYSTEMS[key[0]]}, {key[1]}" if key[1] else SYSTEMS[key[0]]


def _listed(losses: list[str], number: int) -> str:
    return "none" if not losses else "all" if len(losses) == number else ", ".join(losses)


def _points(values: Any) -> str:
    return f"{100 * values.mean:.1f}"


def _signed(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def _shown(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _compared(p: float) -> str:
    return _shown(p) if p < 0.001 else f"= {_shown(p)}"


def seeds_of(cells: list[dict[str, Any]]) -> str:
    """Return sentences about the number of seeds of each loss, and about the seeds that were not run."""
    done: dict[tuple[str, str], dict[int, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
    for cell in cells:
        done[cell["system"], cell["loss"]][cell["seed"]].add((cell["collection"], cell["fold"]))
    every = {(cell["collection"], cell["fold"]) for cell in cells}
    several = sorted(key for key, seeds in done.items() if len(seeds) > 1)
    most = max(map(len, done.values()))
    if not several:
        return "Each ranker has one seed."
    named = ", ".join(f"{SYSTEMS[system]} with {loss}" for system, loss in several)
    text = (
        f"{most} seeds: {named}. All other rankers have one seed. Values are means over the seeds. A mean over several "
    )
    text += "seeds has less noise, so p values of rows with and without several seeds are not comparable."
    missing: dict[tuple[int, int], int] = defaultdict(int)
    for key in several:
        for seed in range(most):
            for _, fold in every - done[key][seed]:
                missing[seed, fold] += 1
    if missing:
        parts = [f"seed {seed} of fold {fold} ({number} cells)" for (seed, fold), number in sorted(missing.items())]
        text += f" Not run: {', '.join(parts)}."
    return paragraph(text)


def memory() -> str:
    """Return the table of memory and time of a training step."""
    rows = []
    for row in read(HERE / "memory.json")["rows"]:
        values = [f"{row['seconds']:.2f}", f"{row['MB extra']:,.0f}"] if "seconds" in row else [row["failed"], ""]
        rows.append([str(row["documents"]), row["method"], *values])
    return table(["documents", "method", "seconds per step", "MB for the step"], rows)


def memory_ratio() -> str:
    """Return a sentence: the memory of the longest list divided by that of the shortest, in chunks."""
    found = {
        row["documents"]: row["MB extra"] for row in read(HERE / "memory.json")["rows"] if row["method"] == "chunks"
    }
    longest, shortest = max(found), min(found)
    return (
        f"In chunks, a list of {longest:,} documents needs {found[longest] / found[shortest]:.2f} times the memory of "
        f"a list of {shortest:,}."
    )


def distillation() -> str:
    """Return the table of students and teachers."""
    found = read(HERE / "distillation.json")
    names = {"encoder": (found["teacher"], found["student"]), "static": (found["student"], "embedding table")}
    rows = []
    for row in found["rows"]:
        teacher, student = names[row["what"]]
        numbers = [f"{100 * row['means'][name]:.1f}" for name in ("teacher", "before", "student")]
        gaps = [_interval(row[name]) for name in ("student - teacher", "student - before")]
        rows.append([COLLECTIONS[row["collection"]], f"{_named(student)} from {_named(teacher)}", *numbers, *gaps])
    heads = ["", "student", "teacher", "before", "distilled", "minus teacher", "minus before"]
    return table(heads, rows)


def not_distilled() -> str:
    """Return a sentence about collections that were not run."""
    done = {row["collection"] for row in read(HERE / "distillation.json")["rows"]}
    left = [title for name, title in COLLECTIONS.items() if name not in done]
    return f"Not run: {', '.join(left)}." if left else ""


def speed() -> str:
    """Return the table of documents per second."""
    rows = []
    for row in read(HERE / "distillation.json")["speed"]:
        device = f"CPU, {row['threads']} threads" if row["device"] == "cpu" else "GPU"
        rates = row["documents per second"]
        rows.append([device, *(f"{rates[name]:,.0f}" for name in ("teacher", "student", "static"))])
    return table(["", "mpnet", "MiniLM", "embedding table"], rows)


def _named(text: str) -> str:
    return {"mpnet16": "mpnet", "minilm": "MiniLM"}.get(text, text)


def _interval(found: dict[str, float]) -> str:
    return f"{100 * found['mean']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"
