"""Read the measurements that benchmarks write to `docs/tables`, and those of studies."""

import json
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "tables"
STUDIES = Path(__file__).parents[2] / "studies"


def read(name: str | Path) -> Any:
    """Return the measurements in a JSON file: a path, or a name in `docs/tables`."""
    return json.loads((name if isinstance(name, Path) else TABLES / f"{name}.json").read_text())


def read_if_present(name: str) -> Any:
    """Return the measurements in `docs/tables/<name>.json`, or None if there is no such file."""
    return read(name) if (TABLES / f"{name}.json").exists() else None


def where(facts: dict[str, Any]) -> str:
    """Return the machine, the version of PyTorch and the commit of a measurement."""
    return f"{facts['chip']}, torch {facts['torch']}, commit {facts['commit']}"
