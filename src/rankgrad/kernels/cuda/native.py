"""Builds the C++ module `native.cpp` and makes its plans. The C++ module repeats recorded launches without Python.

The C++ module is off by default: the compiler starts only if `RANKGRAD_NATIVE=1` or `rg.backend("auto", native=True)`
is set. Then the first call on a machine starts the compiler once, in the background. Until the compiler has finished,
calls run in Python, with the same results. Calls also run in Python if there is no compiler or no private folder for
the built file.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rankgrad.backend import native as wanted
from rankgrad.kernels import cache_folder

if TYPE_CHECKING:
    from rankgrad.kernels.cuda.recorded_launches import Launch

SOURCE = Path(__file__).with_name("native.cpp")
NAME = f"native{sysconfig.get_config_var('EXT_SUFFIX')}"
# `struct` format of an argument, for each type name of Triton.
PACKED = {"i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "fp32": "f", "fp64": "d"}
PACKED |= {f"u{width[1:]}": code.upper() for width, code in PACKED.items() if width[0] == "i"}

_module: Any = None
_builder: threading.Thread | None = None
_begun = False


def ready() -> Any:
    """Return the C++ module. Return None if the user did not turn the module on, or if it is not built yet."""
    if not wanted():
        return None
    if not _begun:
        _begin()
    return _module


def wait() -> bool:
    """Wait until the C++ module is built, for measurements and tests. Return True if `ready` returns the module."""
    if ready() is None and wanted() and _builder is not None:
        _builder.join()
    return ready() is not None


def compiler() -> str | None:
    """Return the path of the C++ compiler. Return None if the C++ module cannot be built, or cannot be loaded."""
    return shutil.which(os.environ.get("CXX", "c++")) if hasattr(os, "memfd_create") else None


def _begin() -> None:
    """Load the C++ module that an earlier process built, or start a thread that builds it."""
    global _begun, _builder
    _begun = True
    if (program := compiler()) is None:
        return
    made_for = (torch.__version__, sysconfig.get_platform())
    folder = cache_folder.CacheFolder.of("native", SOURCE.read_bytes(), repr(made_for).encode())
    if not _load(folder) and folder.path is not None:
        _builder = threading.Thread(target=_build, args=(program, folder), daemon=True)
        _builder.start()


def _build(program: str, folder: cache_folder.CacheFolder) -> None:
    """Run the C++ compiler. If this process ends, the compiler continues, and the output of the compiler is stored."""
    build = [sys.executable, "-I", cache_folder.__file__, str(folder.path), NAME, *command_line(program)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run(build, start_new_session=True, check=False, **quiet).returncode == 0:
        _load(folder)


def command_line(program: str) -> list[str]:
    """Return the command that compiles `native.cpp`, without `-o` and the output path."""
    root = Path(torch.__file__).parent
    includes = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    includes = [*includes, Path(sysconfig.get_path("include"))]
    libraries = root / "lib"
    return [
        *(program, "-O2", "-std=c++20", "-shared", "-fPIC", "-w", str(SOURCE)),
        *(part for include in includes for part in ("-isystem", str(include))),
        *(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-L{libraries}"),
        *(f"-Wl,-rpath,{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"),
    ]


def _load(folder: cache_folder.CacheFolder) -> bool:
    """Load the C++ module from the cache folder. Return False if no module is stored.

    The module is loaded from memory, so that exactly the checked bytes run.
    """
    global _module
    if (content := folder.read(NAME)) is None:
        return False
    try:
        with open(os.memfd_create(NAME), "wb") as file:
            file.write(content)
            file.flush()
            loader = ExtensionFileLoader("native", f"/proc/self/fd/{file.fileno()}")
            module = module_from_spec(spec_from_loader("native", loader))  # type: ignore[arg-type]
            loader.exec_module(module)
        _module = module
    except (ImportError, OSError):  # built for another build of the same PyTorch version, or no memory files
        pass
    return True


def plan(
    built: Any, launches: list["Launch"], outputs: tuple[tuple[torch.Size, torch.dtype], ...], scratch: int, device: str
) -> Any:
    """Return the plan by which the C++ module repeats recorded launches, or None if no plan is possible."""
    if (driver := _driver()) is None:
        return None
    described = [_describe(launch, driver) for launch in launches]
    if None in described:
        return None
    launcher = ctypes.cast(driver.cuLaunchKernel, ctypes.c_void_p).value
    shapes = [([*shape], dtype == torch.float64) for shape, dtype in outputs]
    return built.plan(launcher, device, scratch, described, shapes)


def _describe(launch: "Launch", driver: Any) -> tuple[Any, ...] | None:
    """Return a recorded launch in the form that `native.cpp` reads, or None if the kernel needs a special launch."""
    compiled, meta = launch.compiled, launch.compiled.metadata
    special = ("launch_pdl", "launch_cooperative_grid", "global_scratch_size", "profile_scratch_size")
    if meta.num_ctas > 1 or any(getattr(meta, name, False) for name in special):
        return None
    packed, sizes, pointers = pack_launch(compiled.src.signature, launch)
    wanted = _sizes(driver, compiled.function)
    # Triton adds pointers to scratch memory, which is not used here.
    if wanted[: len(sizes)] != sizes or any(size != 8 for size in wanted[len(sizes) :]):
        return None
    packed += bytes(8 * (len(wanted) - len(sizes)))
    places = list(range(0, len(packed), 8))
    return compiled.function, launch.grid, meta.num_warps * 32, meta.shared, packed, places, pointers


def pack_launch(signature: dict[str, str], launch: "Launch") -> tuple[bytes, list[int], list[tuple[int, int, int]]]:
    """Return the arguments of a recorded launch for `native.cpp`: packed bytes, sizes, and addresses.

    Each packed argument has 8 bytes. An address is (place in the packed bytes, base, offset).
    """
    addresses = {at: (base, offset) for at, base, offset in launch.tensors}
    packed, sizes, pointers = b"", [], []
    for at, name in enumerate(launch.names):
        kind = signature.get(name, "constexpr")
        if kind == "constexpr":
            continue
        value = launch.values[at]
        if at in addresses:
            pointers.append((len(packed), *addresses[at]))
            value, kind = 0, "i64"
        argument = struct.pack(PACKED[kind], value)
        sizes.append(len(argument))
        packed += argument.ljust(8, b"\0")
    return packed, sizes, pointers


@lru_cache(maxsize=1)
def _driver() -> Any:
    """Return the CUDA driver, or None if no driver can report the arguments of a kernel."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return driver if driver.cuFuncGetParamInfo else None
    except (OSError, AttributeError):
        return None


def _sizes(driver: Any, function: int) -> list[int]:
    """Return the size of each argument of a compiled GPU kernel, in bytes."""
    sizes: list[int] = []
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    results = (ctypes.byref(offset), ctypes.byref(size))
    while driver.cuFuncGetParamInfo(ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), *results) == 0:
        sizes.append(size.value)
    return sizes
