"""A small collection of text in files, with the defects that real collections have."""

import json
import random

TOPICS = ("wing", "flutter", "heat", "slab", "shock", "layer")


def made_collection(folder, documents=36, queries=12, seed=0):
    """Write documents.jsonl, queries.tsv and qrels.txt: an empty document, a long one, other scripts, bad ids."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"word{number}" for number in range(40)]
    rows = []
    for number in range(documents):
        topic = TOPICS[number % len(TOPICS)]
        text = " ".join([topic, *draw.choices(words, k=draw.randint(8, 20)), topic])
        rows.append({"id": f"d{number}", "title": f"On {topic} number {number}", "text": text})
    rows += [
        {"id": "empty", "title": "", "text": ""},
        {"id": "long", "title": "Long", "text": ("flutter of a wing " * 5556)[:100_000]},
        {"id": "лист", "title": "Лифт", "text": "Лифт и щит"},
        {"id": "d0", "title": "A second d0", "text": "with the id of the first one"},
    ]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = [f"q{number}\t{TOPICS[number % len(TOPICS)]} {words[number]}\n" for number in range(queries - 1)]
    (folder / "queries.tsv").write_text("".join([*asked, "qc\tлифт\n"]), encoding="utf-8")
    judged = [
        f"q{query} 0 d{number} {1 + (number + query) % 2}\n"
        for query in range(queries - 1)
        for number in range(query % len(TOPICS), documents, 2 * len(TOPICS))
    ]
    judged += ["qc 0 лист 2\n", "q0 0 unknown 1\n", "stranger 0 d1 1\n", "q1 0 long 1\n"]
    (folder / "qrels.txt").write_text("".join(judged), encoding="utf-8")
    return folder
