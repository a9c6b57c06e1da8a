"""Compare losses and systems on text: `python studies/text/measure.py --data DIR --encoder FOLDER --out FOLDER`.

Cranfield and Vaswani, BM25's top 100 re-ranked, five folds by query. Systems: BM25, the encoder as it comes, encoders
that are fine-tuned with several losses, cross-encoders after a warm start without labels, losses of
sentence-transformers at the same budget, and the fusion of each with BM25. All losses have the same learning rate, and
the validation queries choose the epoch; if RATES contains several rates, they also choose the rate. One file per cell;
a second call continues. `--join FILE` writes the values of all queries to one compressed file, from which
the page is made.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

METRICS = ["nDCG(gain='linear')@10", "nDCG(gain='linear')@20", "AP", "P@10"]
CHOOSE = METRICS[0]
DEPTH = 100
LISTS = {"batch_size": 8, "list_size": 32}
LOSSES = {
    "hinge": "hinge",
    "RankNet": "ranknet",
    "softmax": "softmax",
    "ListNet": "listnet:targets=softmax",
    "LambdaLoss@10": "lambdaloss@10",
    "ApproxNDCG": "approx_ndcg",
    "SmoothI-NDCG": "smooth_ndcg:k=none",
    "NeuralNDCG": "neural_ndcg",
    "LearnDCG": "learndcg",
}
SEEDED = ("hinge", "softmax", "LambdaLoss@10", "SmoothI-NDCG")
PEERS = ("BCE", "ListNet", "LambdaLoss")
RATES = {"bi_encoder": (3e-5,), "cross_encoder": (3e-5,)}
EPOCHS = {"bi_encoder": 5, "cross_encoder": 5}


class StudyCell(NamedTuple):
    """One training, or one system without training, on one fold."""

    collection: str
    system: str
    loss: str = ""
    seed: int = 0
    fold: int = 1

    @property
    def file(self) -> str:
        """Name of the result file."""
        words = (self.collection, self.system, self.loss or "none", f"s{self.seed}", f"f{self.fold}")
        return "_".join(words).replace("@", "-") + ".json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that contains cranfield/ and vaswani/")
    parser.add_argument("--encoder", required=True, help="folder of the encoder, MiniLM-L6 in our study")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--collections", nargs="*", default=["cranfield", "vaswani"])
    parser.add_argument("--folds", nargs="*", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--systems", nargs="*", default=["untrained", "bi_encoder", "cross_encoder", "peer"])
    parser.add_argument("--losses", nargs="*", help="only these losses")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of four losses; the others have one")
    parser.add_argument("--cross-seeds", type=int, default=1, help="number of seeds of the cross-encoders")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no cell after this time")
    parser.add_argument("--join", type=Path, help="write the results of --out to this file (.json.xz), and stop")
    options = parser.parse_args()
    if options.join:
        join(options)
        return
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = [cell for cell in planned(options) if not (options.out / cell.file).exists()]
    if any(cell.system in ("cross_encoder", "peer", "warm_start") for cell in cells):
        with multiprocessing.get_context("spawn").Pool(len(options.collections)) as pool:
            for line in pool.starmap(warm_start, [(name, options) for name in options.collections]):
                print(line, flush=True)
    print(f"{len(cells)} cells, {time.time() - began:.0f} s so far", flush=True)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        jobs = [(cell, options, began) for cell in cells]
        for line in pool.imap_unordered(run, jobs):
            print(line, flush=True)
    print(f"{time.time() - began:.0f} s in all", flush=True)


def planned(options: argparse.Namespace) -> list[StudyCell]:
    """Return all cells, the first seeds of all losses first."""
    cells = []
    for seed in range(max(options.seeds, options.cross_seeds)):
        for fold in options.folds:
            for name in options.collections:
                if seed == 0 and "untrained" in options.systems:
                    cells.append(StudyCell(name, "untrained", fold=fold))
                for loss in LOSSES:
                    if seed < (options.seeds if loss in SEEDED else 1):
                        cells.append(StudyCell(name, "bi_encoder", loss, seed, fold))
                    if loss in SEEDED and seed < options.cross_seeds:
                        cells.append(StudyCell(name, "cross_encoder", loss, seed, fold))
                if seed < options.cross_seeds:
                    cells += [StudyCell(name, "peer", loss, seed, fold) for loss in PEERS]
                if seed == 0 and "cross_encoder" in options.systems:
                    cells.append(StudyCell(name, "warm_start", fold=fold))
    wanted = {*options.systems, "warm_start"}
    cells = [cell for cell in cells if cell.system in wanted]
    return [cell for cell in cells if not options.losses or cell.loss in ("", *options.losses)]


@lru_cache
def candidates(data: Path, name: str) -> Any:
    """Return the collection, the run of BM25 and its text data set."""
    from rankgrad import text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collection = text.load(data / name)
    run = text.BM25Index.build(collection.documents).search(collection.queries, k=DEPTH, excluded=collection.excluded)
    return collection, run, text.candidate_lists(collection, run, depth=DEPTH)


def warm_start(name: str, options: argparse.Namespace) -> str:
    """Train a cross-encoder without labels, and save it: a fusion of BM25 and the encoder teaches pseudo queries."""
    from rankgrad import text

    folder = options.out / f"warm-{name}"
    if (folder / "encoder").exists():
        return f"{folder} exists"
    began = time.time()
    collection = candidates(options.data, name)[0]
    made = text.pseudo_queries(collection, number=3000, seed=0)
    run = text.BM25Index.build(made.documents).search(made.queries, k=DEPTH)
    lists = text.candidate_lists(made, run, depth=32, add_relevant=True)
    teacher = text.BiEncoderRanker(options.encoder, chunk=512, **_device(options))
    fused = text.fuse({"bm25": run, "teacher": text.to_run(lists, teacher.predict(lists))})
    scores = [fused[query][document] for query, document in zip(lists.row_qids, lists.docids, strict=True)]
    train, check = np.arange(len(lists)) % 20 != 0, np.arange(len(lists)) % 20 == 0
    taught = text.teacher_labels(lists, scores, temperature=0.5)
    student = text.CrossEncoderRanker(
        options.encoder,
        loss="listnet:targets=softmax",
        epochs=4,
        batch_size=16,
        list_size=32,
        sampling="random",
        lr=1e-4,
        warmup=0.5,
        schedule="cosine",
        chunk=1024,
        metric=CHOOSE,
        **_device(options),
    )
    student.fit(taught.take(train), lists.take(check), progress=True)
    student.save(folder)
    model = student.fitted()
    losses = " ".join(f"{row['loss']:.3f}" for row in model.history)
    return f"warm start {name}: {time.time() - began:.0f} s, losses {losses}, {model.metrics['validation']}"


def run(job: tuple[StudyCell, argparse.Namespace, float]) -> str:
    """Compute a cell, and write its file; return a line for the log."""
    from rankgrad import text

    cell, options, start = job
    if time.time() - start > options.seconds:
        return f"left out: {cell}"
    began = time.time()
    collection, first, data = candidates(options.data, cell.collection)
    splits = text.folds(data, cell.fold)
    validated, chosen, test_scores, validation_scores, used = SYSTEMS[cell.system](cell, options, splits)
    found = {
        "alone": values(collection, splits.test, text.to_run(splits.test, test_scores)),
        "bm25": values(collection, splits.test, first),
        "fused": values(
            collection,
            splits.test,
            text.fuse({"a": _part(first, splits.test), "b": text.to_run(splits.test, test_scores)}),
        ),
    }
    record = {
        **cell._asdict(),
        "versions": versions(),
        "validation": validated,
        "chosen": chosen,
        "values": found,
        "training_seconds": used,
        "seconds": round(time.time() - began, 2),
        "scores": {"test": _rounded(test_scores), "validation": _rounded(validation_scores)},
    }
    path = options.out / cell.file
    path.with_suffix(".part").write_text(json.dumps(record))
    path.with_suffix(".part").replace(path)
    mean = {kind: np.mean([*each[CHOOSE].values()]) for kind, each in found.items()}
    text_of = " ".join(f"{kind} {100 * value:.1f}" for kind, value in mean.items())
    return f"{cell.file:55} {record['seconds']:6.1f} s  {text_of}  chosen {chosen} of {validated}"


def values(collection: Any, part: Any, run: Any) -> dict[str, dict[str, float]]:
    """Return the metrics of the queries of a part, as trec_eval computes them with all judgements."""
    import rankgrad as rg

    wanted = {query: collection.qrels.get(str(query), {}) for query in part.qids.tolist()}
    measured = rg.metrics.measure_run(run, wanted, METRICS, complete=True, bootstrap=0)
    return {
        name: {str(query): round(float(value), 5) for query, value in zip(measured.queries, column, strict=True)}
        for name, column in measured.values.items()
    }


def versions() -> dict[str, str]:
    """Return the chip, and the versions of the packages that computed a cell."""
    import torch
    import transformers

    chip = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return {"chip": chip, "torch": torch.__version__, "transformers": transformers.__version__}


def without_labels(cell: StudyCell, options: argparse.Namespace, splits: Any) -> Any:
    """Score with the encoder as it comes, or with the cross-encoder after its warm start: neither has seen labels."""
    from rankgrad import text

    ranker: Any
    if cell.system == "warm_start":
        folder = options.out / f"warm-{cell.collection}" / "encoder"
        ranker = text.CrossEncoderRanker(folder, chunk=512, **_device(options))
    else:
        ranker = text.BiEncoderRanker(options.encoder, chunk=512, **_device(options))
    return {}, None, ranker.predict(splits.test), ranker.predict(splits.validation), 0.0


def fine_tuned(cell: StudyCell, options: argparse.Namespace, splits: Any) -> Any:
    """Fine-tune with each learning rate, and keep the one with the best metric on the validation queries."""
    from rankgrad import text

    cross = cell.system == "cross_encoder"
    kind = text.CrossEncoderRanker if cross else text.BiEncoderRanker
    encoder = options.out / f"warm-{cell.collection}" / "encoder" if cross else options.encoder
    tried: dict[float, Any] = {}
    began = time.time()
    for rate in RATES[cell.system]:
        ranker = kind(
            encoder,
            LOSSES[cell.loss],
            epochs=EPOCHS[cell.system],
            **LISTS,
            lr=rate,
            loss_lr=0.01,
            warmup=0.5,
            chunk=1024,
            metric=CHOOSE,
            seed=cell.seed,
            **_device(options),
        )
        tried[rate] = ranker.fit(splits.train, splits.validation)
        tried[rate].best = next(iter(ranker.model_.metrics["validation"].values()))
    return _best(tried, splits, lambda ranker, part: ranker.predict(part), time.time() - began)


def peer(cell: StudyCell, options: argparse.Namespace, splits: Any) -> Any:
    """Fine-tune with a loss of sentence-transformers: same start, same lists, same optimiser, same choice."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder import losses as theirs

    from rankgrad.data.evaluation import evaluate_lists
    from rankgrad.text.list_sampling import training_steps
    from rankgrad.text.model import pairs_of

    tried, began = {}, time.time()
    texts = splits.train.texts
    device = "cuda" if torch.cuda.is_available() and options.device != "cpu" else "cpu"

    def texts_of(part: Any, rows: Any = slice(None)) -> list[tuple[str, str]]:
        return [texts.texts_of(int(q), int(d)) for q, d in pairs_of(part, rows)]

    def predict(ranker: Any, part: Any) -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            found = ranker.predict(texts_of(part), batch_size=512, activation_fn=torch.nn.Identity())
        return np.asarray(found, dtype=np.float32)

    for rate in RATES["cross_encoder"]:
        torch.manual_seed(cell.seed)
        folder = str(options.out / f"warm-{cell.collection}" / "encoder")
        model = CrossEncoder(folder, num_labels=1, max_length=256, device=device)
        loss = {
            "BCE": theirs.BinaryCrossEntropyLoss,
            "ListNet": lambda each: theirs.ListNetLoss(each, mini_batch_size=256),
            "LambdaLoss": lambda each: theirs.LambdaLoss(each, mini_batch_size=256),
        }[cell.loss](model)
        groups = [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.01},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ]
        optimiser = torch.optim.AdamW(groups, lr=rate)
        model.best, kept = -1.0, None
        for epoch in range(EPOCHS["cross_encoder"]):
            labels = splits.train.labels
            steps = training_steps(
                labels, splits.train.offsets, **LISTS, sampling="relevant", seed=cell.seed, epoch=epoch
            )
            model.train()
            for place, step in enumerate(steps):
                warm_up = min(1.0, (epoch + (place + 1) / len(steps)) / 0.5)
                for group in optimiser.param_groups:
                    group["lr"] = rate * warm_up
                pairs, wanted = texts_of(splits.train, step.rows), torch.from_numpy(labels[step.rows]).to(device)
                bounds = list(zip(step.offsets[:-1], step.offsets[1:], strict=True))
                with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                    if cell.loss == "BCE":
                        given: Any = [[q for q, _ in pairs], [d for _, d in pairs]], (wanted > 0).float()
                    else:
                        queries = [pairs[start][0] for start, _ in bounds]
                        documents = [[d for _, d in pairs[start:end]] for start, end in bounds]
                        given = [queries, documents], [wanted[start:end] for start, end in bounds]
                    value = loss(*given)
                optimiser.zero_grad(set_to_none=True)
                value.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
            model.eval()
            part = splits.validation
            found = evaluate_lists(predict(model, part), part, [CHOOSE], bootstrap=0).means[CHOOSE]
            if found > model.best:
                model.best = found
                kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(kept)
        tried[rate] = model
    return _best(tried, splits, predict, time.time() - began)


def _best(tried: dict[float, Any], splits: Any, predict: Any, seconds: float) -> Any:
    chosen = max(tried, key=lambda rate: tried[rate].best)
    ranker = tried[chosen]
    validated = {str(rate): round(each.best, 5) for rate, each in tried.items()}
    return validated, chosen, predict(ranker, splits.test), predict(ranker, splits.validation), round(seconds, 2)


def _device(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available() and options.device != "cpu"
    return {"device": "cuda" if cuda else "cpu", "precision": "bf16" if cuda else "fp32"}


def _part(run: Any, part: Any) -> Any:
    return {str(query): run.get(str(query), {}) for query in part.qids.tolist()}


def _rounded(scores: Any) -> list[float]:
    return [float(f"{score:.4g}") for score in np.asarray(scores)]


SYSTEMS = {
    "untrained": without_labels,
    "bi_encoder": fine_tuned,
    "cross_encoder": fine_tuned,
    "warm_start": without_labels,
    "peer": peer,
}


def join(options: argparse.Namespace) -> None:
    """Write all results without scores to one compressed file, and add a learned fusion of the scores."""
    from rankgrad.experiments.runs import provenance

    records = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
    learned = list(learned_fusion(records, options))
    used = {json.dumps(record.pop("versions"), sort_keys=True) for record in records}
    if len(used) > 1:
        raise SystemExit(f"all cells must be computed with the same versions; got {' and '.join(sorted(used))}")
    for record in records:
        del record["scores"]
    facts = {
        "commit": os.environ.get("RANKGRAD_COMMIT") or provenance.commit(),
        **json.loads(used.pop()),
        "rates": RATES,
        "epochs": EPOCHS,
        "lists": LISTS,
        "losses": LOSSES,
        "metrics": METRICS,
    }
    options.join.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"facts": facts, "cells": [*records, *learned]}, separators=(",", ":"))
    options.join.write_bytes(lzma.compress(content.encode(), preset=9))
    print(f"{options.join}: {len(records)} cells, {options.join.stat().st_size:,} bytes")


def learned_fusion(records: list[dict[str, Any]], options: argparse.Namespace) -> Any:
    """Yield cells of a linear ranker on the scores of BM25 and all encoders, fitted on the validation queries."""
    import rankgrad as rg
    from rankgrad import text

    parts = {"untrained": "untrained", "bi_encoder": "LambdaLoss@10", "cross_encoder": "LambdaLoss@10"}
    for name in options.collections:
        for fold in options.folds:
            used = [
                record
                for record in records
                if record["collection"] == name and record["fold"] == fold and record["seed"] == 0
                and record["system"] in parts and record["loss"] in ("", parts[record["system"]])
            ]  # fmt: skip
            if len(used) < len(parts):
                continue
            collection, first, data = candidates(options.data, name)
            splits = text.folds(data, fold)
            sides = {}
            for side in ("validation", "test"):
                part = getattr(splits, side)
                runs = {record["system"]: text.to_run(part, record["scores"][side]) for record in used}
                sides[side] = text.features(
                    collection, {"bm25": _part(first, part), **runs}, standardise="zscore", depth=DEPTH
                )
            train, test = sides["validation"], sides["test"]
            ranker = rg.Ranker(model="linear", loss="softmax", epochs=60, lr=0.05, preprocess="none", holdout=0.0)
            ranker.fit(train.features, train.labels, qid=train.row_qids)
            scores = ranker.predict(test.features, qid=test.row_qids)
            found = {"alone": values(collection, splits.test, text.to_run(test, scores))}
            yield {**StudyCell(name, "learned_fusion", "", 0, fold)._asdict(), "values": found}


if __name__ == "__main__":
    main()
