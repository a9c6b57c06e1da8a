"""Files that are there as a whole or not at all: written aside, put on the disk, renamed."""

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file aside and rename it into its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """JSON with one key a line, and NaN refused."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any] | None = None) -> None:
    """A safetensors file; `facts` are JSON in its header."""
    from safetensors.torch import save

    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(kept, {"facts": json.dumps(facts)} if facts else None))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a safetensors file, and its facts. Nothing in such a file can run code."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(header.get("facts", "{}"))  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} must be a whole safetensors file; got {error}") from error
