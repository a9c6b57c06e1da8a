"""Commit, version and chip of a benchmark, for every row that it prints."""

import os
import platform
import subprocess
from pathlib import Path

import torch


def setting(device: str = "cpu") -> dict[str, str]:
    """Return the commit, the version of torch, and the chip."""
    return {"commit": _commit(), "torch": torch.__version__, "chip": _gpu() if device == "cuda" else _cpu()}


def where(**versions: str) -> str:
    """Return the setting of a benchmark on the CPU as text, with the versions of other packages."""
    found = setting()
    packages = [f"{name.replace('_', '-')} {version}" for name, version in versions.items()]
    return ", ".join([found["commit"], f"torch {found['torch']}", *packages, found["chip"]])


def _commit() -> str:
    if known := os.environ.get("RANKGRAD_COMMIT"):  # for a copy of the tree without its history
        return known
    where = Path(__file__).parent
    found = subprocess.run(["git", "-C", where, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return found.stdout.strip() or "no commit"


def _gpu() -> str:
    return torch.cuda.get_device_name()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    name = names[0].split(":")[1].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {torch.get_num_threads()} thread(s)"
