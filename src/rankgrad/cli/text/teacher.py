"""Read the teacher that `rankgrad text distil --teacher` names: a model, a TREC run, or an order of documents."""

import json
from pathlib import Path

from rankgrad.errors import bad_value

_ORDERS = (".jsonl", ".ndjson")
_FILES = (*_ORDERS, ".txt", ".run", ".trec")  # usual endings of orders and runs, which no model has


def teacher_kind(teacher: str) -> str:
    """Return the kind of a teacher: `order` (JSON lines), `run` (another file) or `model`."""
    if Path(teacher).is_file():
        return "order" if Path(teacher).suffix in _ORDERS else "run"
    return "model"


def check_teacher(teacher: str) -> None:
    """Raise an error if a teacher is probably the wrong path of a file or folder. A name on the hub is not checked."""
    from rankgrad.cli.text.text_models import check_exists

    check_exists("teacher", teacher, "text ranker, TREC run or order of documents (.jsonl)", _FILES)


def read_order(path: Path) -> dict[str, list[str]]:
    """Return document ids per query, best first, from lines of `{"query": id, "documents": [id, ...]}`."""
    form = '{"query": id, "documents": [id, ...]}'
    order: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            query, documents = str(row["query"]), [str(each) for each in row["documents"]]
        except (ValueError, KeyError, TypeError):
            bad_value(f"{path}:{number}", f"have the form {form}", repr(line[:60]))
        if query in order:
            bad_value(f"{path}:{number}", "contain each query once", repr(query))
        order[query] = documents
    if not order:
        bad_value(str(path), f"have lines of the form {form}", "none")
    return order
