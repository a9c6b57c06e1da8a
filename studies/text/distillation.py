"""Distil small text rankers from big ones: `python studies/text/distillation.py --data DIR --big F --small F`.

Two students. The small encoder learns from the scores of the big one; an embedding table (the word vectors of the small
encoder) learns from the small encoder. Both learn on pseudo queries, which are parts of documents: no query of the
collection and no label is used, so all queries are test queries. BM25's top 100 are re-ranked. The differences
between student and teacher, and between student and the same network before distillation, have bootstrap intervals
over the queries. Then the time to encode documents is measured, in turns, on the CPU and on the GPU if there is one.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import CHOOSE, DEPTH, METRICS, candidates, values

from rankgrad import text
from rankgrad.experiments.runs import provenance
from rankgrad.experiments.statistics import bootstrap

TEMPERATURE = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that contains cranfield/ and vaswani/")
    parser.add_argument("--big", required=True, help="folder of the teacher, all-mpnet-base-v2 in our study")
    parser.add_argument("--small", required=True, help="folder of the student, MiniLM-L6 in our study")
    parser.add_argument("--collections", nargs="*", default=["cranfield", "vaswani"])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--speed-documents", type=int, default=256)
    parser.add_argument("--out", type=Path, help="file for the results, JSON")
    options = parser.parse_args()
    cuda = torch.cuda.is_available() and options.device != "cpu"
    device = {"device": "cuda" if cuda else "cpu", "precision": "bf16" if cuda else "fp32"}
    rows = [row for name in options.collections for row in collection_rows(name, options, device)]
    found = {
        "commit": os.environ.get("RANKGRAD_COMMIT") or provenance.commit(),
        "torch": torch.__version__,
        "chip": torch.cuda.get_device_name() if cuda else "CPU",
        "teacher": Path(options.big).name,
        "student": Path(options.small).name,
        "epochs": options.epochs,
        "metric": CHOOSE,
        "rows": rows,
        "speed documents": options.speed_documents,
        "speed": speed(options, cuda),
    }
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def collection_rows(name: str, options: argparse.Namespace, device: dict[str, Any]) -> Any:
    """Yield the row of each student on one collection."""
    collection, _, data = candidates(options.data, name)
    made = text.pseudo_queries(collection, number=3000, remove=False, seed=0)
    found = text.BM25Index.build(made.documents).search(made.queries, k=DEPTH)
    lists = text.candidate_lists(made, found, depth=DEPTH)
    small = {"max_length": 256, "chunk": 512, "temperature": TEMPERATURE, **device}
    static = {**small, "max_length": 512, "precision": "fp32"}
    students = (
        ("encoder", options.big, {**small, "max_length": 384}, options.small, small, {"lr": 5e-5}),
        ("static", options.small, small, f"static:{options.small}", static, {"lr": 3e-3, "weight_decay": 0.0}),
    )
    for what, teacher_name, teacher_options, student_name, student_options, training in students:
        began = time.time()
        teacher = text.BiEncoderRanker(teacher_name, **teacher_options)
        before = text.BiEncoderRanker(student_name, **student_options)
        epochs = options.epochs * (3 if what == "static" else 1)
        learnt = {"epochs": epochs, "warmup": 0.3, "schedule": "cosine"}
        student = text.BiEncoderRanker(
            student_name,
            loss="listnet:targets=softmax",
            batch_size=16,
            list_size=48,
            sampling="random",
            **{**student_options, "chunk": 1024, **learnt, **training},
        )
        student.fit(text.teacher_labels(lists, teacher.predict(lists)))
        rankers = {"teacher": teacher, "before": before, "student": student}
        measured = {
            each: values(collection, data, text.to_run(data, ranker.predict(data))) for each, ranker in rankers.items()
        }
        column = {each: np.array([*found[CHOOSE].values()]) for each, found in measured.items()}
        yield {
            "collection": name,
            "what": what,
            "epochs": epochs,
            "seconds": round(time.time() - began, 1),
            "means": {each: float(values.mean()) for each, values in column.items()},
            "all": {
                each: {m: float(np.mean([*found[m].values()])) for m in METRICS} for each, found in measured.items()
            },
            "student - teacher": _difference(column["student"], column["teacher"]),
            "student - before": _difference(column["student"], column["before"]),
        }


def speed(options: argparse.Namespace, cuda: bool) -> list[dict[str, Any]]:
    """Return documents per second of each encoder: the median of five turns, after one turn that does not count."""
    collection = candidates(options.data, options.collections[0])[0]
    documents = [collection.documents.full(number) for number in range(options.speed_documents)]
    named = {"teacher": options.big, "student": options.small, "static": f"static:{options.small}"}
    rows = []
    for device in ("cpu", *(["cuda"] if cuda else [])):
        encoders = {
            each: text.BiEncoderRanker(folder, max_length=256, chunk=64, device=device)
            for each, folder in named.items()
        }
        times: dict[str, list[float]] = {each: [] for each in encoders}
        for turn in range(6):
            for each, encoder in encoders.items():
                if device == "cpu" and each == "teacher" and turn > 3:
                    continue
                began = time.perf_counter()
                encoder.encode(documents)
                times[each] += [time.perf_counter() - began] if turn else []
        rates = {each: len(documents) / statistics.median(found) for each, found in times.items()}
        rows.append({"device": device, "threads": torch.get_num_threads(), "documents per second": rates})
    return rows


def _difference(a: Any, b: Any) -> dict[str, float]:
    found = bootstrap(a - b, seed=0)
    return {"mean": float((a - b).mean()), "low": float(found[0]), "high": float(found[1])}


if __name__ == "__main__":
    main()
