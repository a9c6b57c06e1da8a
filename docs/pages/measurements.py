"""Read the measurements that benchmarks and studies write to `docs/tables`."""

import json
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "tables"


def read(name: str) -> Any:
    """Return the measurements in `docs/tables/<name>.json`."""
    return json.loads((TABLES / f"{name}.json").read_text())


def read_if_present(name: str) -> Any:
    """Return the measurements in `docs/tables/<name>.json`, or None if there is no such file."""
    return read(name) if (TABLES / f"{name}.json").exists() else None


def where(facts: dict[str, Any]) -> str:
    """Return the machine, the version of PyTorch and the commit of a measurement."""
    return f"{facts['chip']}, torch {facts['torch']}, commit {facts['commit']}"
