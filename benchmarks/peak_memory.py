"""Read the memory of a process or of the GPU, and its peak."""

from pathlib import Path

import torch


def memory(device: str) -> int:
    """Return the memory in use now, in bytes."""
    return torch.cuda.memory_allocated() if device == "cuda" else _of_process("VmRSS")


def peak(device: str) -> int:
    """Return the largest memory since the start or the last `forget_peak`, in bytes."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else _of_process("VmHWM")


def forget_peak(device: str) -> None:
    """Set the peak to the memory in use now."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def _of_process(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024
