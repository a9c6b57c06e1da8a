"""What a result says about where it came from: commit, versions, machine, memory."""

import os
import platform
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the checkout that this package is in, with `-dirty` where files differ; else the version."""
    package = Path(__file__).parent.parent
    released = f"version {versions().get('rankgrad', 'unknown')}"
    try:
        # A package that is merely installed inside some other repository is not of its commit.
        ours = _git(package, "ls-files", "--error-unmatch", "__init__.py")
        said = _git(package, "describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        return released
    return said.stdout.strip() if ours.returncode == said.returncode == 0 else released


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Of Python and of what results depend on."""
    found = {"python": platform.python_version()}
    for name in ("rankgrad", "torch", "numpy", "numba", "lightning-fabric"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def machine() -> str:
    """Processor, cores and system, in words."""
    chip = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        chip = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{chip}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def forget_peak() -> bool:
    """Begin to measure the peak of this process's memory anew; whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_memory() -> int:
    """The most memory, in bytes, that this process held since `forget_peak`, or else ever; 0 where unknown."""
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
