"""What generated pages are made of: tables, paragraphs, and what benchmarks and studies wrote into `docs/tables`."""

import json
import textwrap
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"


def grid(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def paragraph(text: str) -> str:
    """The text in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def wrapped(text: str) -> str:
    """A text with its paragraphs in such lines; headings and code stay as they are."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith(("#", "```")) else paragraph(part) for part in parts) + "\n"


def read(name: str) -> Any:
    """What lies in `docs/tables` under this name; None where there is nothing."""
    path = TABLES / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def where(facts: dict[str, Any]) -> str:
    """The machine and the state of the code that something was measured with."""
    return f"{facts['chip']}, torch {facts['torch']}, commit {facts['commit']}"
