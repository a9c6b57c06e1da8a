"""Where compiled code is kept: under RANKGRAD_CACHE, or in the user's cache."""

import hashlib
import os
import tempfile
from pathlib import Path


def folder(kind: str, *contents: bytes) -> Path:
    """A folder for what was compiled from these contents; where none can be made there, a temporary one."""
    name = f"{kind}-{hashlib.sha256(b''.join(contents)).hexdigest()[:16]}"
    root = Path(os.environ.get("RANKGRAD_CACHE", "") or Path.home() / ".cache" / "rankgrad")
    found = root / name
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError:
        found = Path(tempfile.gettempdir()) / f"rankgrad-{name}"
        found.mkdir(parents=True, exist_ok=True)
    return found
