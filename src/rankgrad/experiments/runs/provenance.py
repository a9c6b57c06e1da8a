"""Provenance of a result: commit, versions, machine, memory."""

import os
import platform
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@lru_cache(maxsize=1)
def commit() -> str:
    """Return the commit of this package for a result, with `-dirty` if files were changed.

    For an installed package, the version is returned. If the environment variable `RANKGRAD_COMMIT` is set, the value
    of this variable is returned. Set this variable for a copy of the files without the Git history.
    """
    if given := os.environ.get("RANKGRAD_COMMIT"):
        return given
    package = Path(__file__).parent.parent
    released = f"version {versions().get('rankgrad', 'unknown')}"
    try:
        # If the package is installed inside another repository, the commit of that repository must not be used.
        ours = _git(package, "ls-files", "--error-unmatch", "__init__.py")
        described = _git(package, "describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        return released
    return described.stdout.strip() if ours.returncode == described.returncode == 0 else released


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return, for the provenance of a result, the versions of Python and of packages that can change results."""
    found = {"python": platform.python_version()}
    for name in ("rankgrad", "torch", "numpy", "numba", "lightning-fabric"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def machine() -> str:
    """Describe the machine of a result: processor, number of cores and operating system."""
    chip = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        chip = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{chip}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def reset_peak() -> bool:
    """Reset the peak memory of this process before a cell is run; return False if the system does not support this."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_memory() -> int:
    """Return the peak memory of this process in bytes, for the result of a cell; 0 if it is unknown.

    The peak is measured since the last call of `reset_peak`, or since the process started.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
