"""`rankgrad doctor`: prints versions, devices, active kernels, caches and extras."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.option_groups import AsJson

if TYPE_CHECKING:
    from rich.console import Console

# Packages of the core whose versions matter most.
CORE = ("torch", "numpy", "numba", "triton", "scipy", "scikit-learn", "lightning-fabric", "safetensors")
EXTRAS = {
    "report": "report pages, and figures as SVG and PNG",
    "frames": "tables in files (CSV, Parquet, Arrow, JSON lines), pandas and polars",
    "trees": "rankers that are boosted trees",
    "text": "rankers of text",
    "export": "export to ONNX",
    "ray": "experiments on a Ray cluster",
    "docs": "the documentation site",
    "dev": "tests, linters and type checks",
}
VARIABLES = (
    *("RANKGRAD_BACKEND", "RANKGRAD_NATIVE", "RANKGRAD_CACHE", "RANKGRAD_DATA", "RANKGRAD_IMPORT"),
    *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "TRITON_CACHE_DIR", "TRITON_INTERPRET"),
)


def doctor(
    clear_cache: Annotated[bool, typer.Option("--clear-cache", help="Remove the compiled code of rankgrad.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the state of the installation: versions, devices, active kernels with reasons, caches, extras.

    Losses compile kernels when they are first used, and store them in a cache. `--clear-cache` removes this cache; the
    next training compiles again.

    Example: `rankgrad doctor --json`
    """
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.terminal_text import screen
    from rankgrad.kernels.cache_folder import remove_stored

    if clear_cache:
        count = remove_stored()
        messages(as_json).print(f"removed {count} files of compiled code")
    found = examined()
    if as_json:
        print_json(found)
    else:
        _print(screen(highlight=False), found)


def examined() -> dict[str, Any]:
    """Return everything that `rankgrad doctor` prints, by section."""
    import platform

    from rankgrad import __version__
    from rankgrad.kernels.diagnosis import active_kernels

    versions = {"rankgrad": __version__, "Python": platform.python_version(), "system": platform.platform()}
    return {
        "versions": {**versions, **{name: installed(name) for name in CORE}},
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "devices": _devices(),
        "kernels": [each._asdict() for each in active_kernels()],
        "caches": _caches(),
        "extras": _extras(),
    }


def installed(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed. A CPU build may have another name."""
    for name in (package, f"{package}-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _devices() -> list[dict[str, Any]]:
    import torch

    from rankgrad.cli.experiment import cores

    found: list[dict[str, Any]] = [{"device": "cpu", "cores": cores(), "threads": torch.get_num_threads()}]
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        capability = f"{facts.major}.{facts.minor}"
        found.append({"device": f"cuda:{number}", "name": facts.name, "memory_bytes": facts.total_memory})
        found[-1] |= {"capability": capability}
    return found


def _caches() -> list[dict[str, Any]]:
    from rankgrad.kernels.cache_folder import cache_root, stored_folders

    triton = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    places = {"compiled code of rankgrad": (cache_root(), stored_folders()), "Triton": (triton, [triton])}
    found = []
    for name, (path, folders) in places.items():
        sizes = [size for folder in folders for size in _sizes(folder)]
        found.append({"cache": name, "path": str(path), "files": len(sizes), "bytes": sum(sizes)})
    return found


def _sizes(folder: Path) -> Iterator[int]:
    for file in folder.rglob("*"):
        with suppress(OSError):  # another process has removed the file in the meantime
            if file.is_file():
                yield file.stat().st_size


def _extras() -> list[dict[str, Any]]:
    """Return the packages and versions of each extra of rankgrad. The version of a missing package is None."""
    try:
        lines = requires("rankgrad") or []
    except PackageNotFoundError:  # the source folder is used without an installation
        lines = []
    found: dict[str, dict[str, str | None]] = {name: {} for name in EXTRAS}
    for line in lines:
        package, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"](\w+)['\"]", line)
        if package and extra and package[0] != "rankgrad":
            found.setdefault(extra[1], {})[package[0]] = installed(package[0])
    return [{"extra": name, "for": EXTRAS.get(name, ""), "packages": packages} for name, packages in found.items()]


def _print(console: "Console", found: dict[str, Any]) -> None:
    from rankgrad.cli.terminal_tables import print_names

    versions = [(name, each or "not installed") for name, each in found["versions"].items()]
    print_names(("package", "version"), versions, console=console)
    if found["variables"]:
        print_names(("variable", "value"), [*found["variables"].items()], console=console)
    print_names(("device", "details"), [(each["device"], _device(each)) for each in found["devices"]], console=console)
    kernels = [(each["name"], each["state"], each["why"]) for each in found["kernels"]]
    print_names(("kernels", "state", "reason"), kernels, console=console)
    caches = [(each["cache"], f"{each['bytes'] / 1e6:.1f} MB", each["path"]) for each in found["caches"]]
    print_names(("cache", "size", "folder"), caches, console=console)
    extras = [(each["extra"], each["for"], _packages(each["packages"])) for each in found["extras"]]
    notes = ("Install an extra: pip install 'rankgrad[NAME]'.",)
    print_names(("extra", "for", "packages"), extras, notes, console=console)


def _device(facts: dict[str, Any]) -> str:
    if facts["device"] == "cpu":
        return f"{facts['cores']} cores, {facts['threads']} threads of PyTorch"
    return f"{facts['name']}, {facts['memory_bytes'] / 2**30:.0f} GiB, capability {facts['capability']}"


def _packages(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {each or '(not installed)'}" for name, each in packages.items()) or "unknown"
