"""A small collection of texts, written as a folder. One relevant document of each query has no word of the query."""

import json
from pathlib import Path

WORDS = "wing flap heat slab shock cone jet plate nozzle panel duct probe blade rotor vortex wake strut hull fin keel"


def tiny_collection(folder: str | Path, queries: int = 15) -> Path:
    """Write documents.jsonl, queries.jsonl and qrels.txt: one query per word, documents of two to four words."""
    folder, words = Path(folder), WORDS.split()
    folder.mkdir(parents=True, exist_ok=True)
    documents, qrels = {}, []
    for number, word in enumerate(words):
        others = [words[(number + step) % len(words)] for step in (1, 3, 7)]
        documents[f"d{number}a"] = f"{word} {word} {others[0]}"
        documents[f"d{number}b"] = f"{word} {others[1]} {others[2]} {others[0]}"
        documents[f"d{number}c"] = f"study number {number}"
        qrels += [f"q{number} 0 d{number}a 2", f"q{number} 0 d{number}b 1", f"q{number} 0 d{number}c 1"]
    asked = {f"q{number}": f"what is a {word}" for number, word in enumerate(words[:queries])}
    for name, texts in (("documents", documents), ("queries", asked)):
        lines = (json.dumps({"id": each, "text": text}) + "\n" for each, text in texts.items())
        (folder / f"{name}.jsonl").write_text("".join(lines))
    (folder / "qrels.txt").write_text("\n".join(qrels[: 3 * queries]) + "\n")
    return folder
