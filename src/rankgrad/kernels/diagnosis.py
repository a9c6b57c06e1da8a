"""Reports the kernels that losses use on each device, and the reason. `rankgrad doctor` prints this report."""

from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

import torch

from rankgrad.backend import current
from rankgrad.backend import native as native_wanted
from rankgrad.kernels.op import FUSED


class KernelState(NamedTuple):
    """State of the kernels of a device, or of the C++ launches."""

    name: str  # "CPU", "GPU" or "C++ launches"
    state: str  # "fused", "plain", "on", "off" or "none"
    why: str  # reason for the state


def active_kernels() -> list[KernelState]:
    """Return the states of the CPU kernels, of the GPU kernels, and of the C++ module that repeats launches."""
    return [KernelState("CPU", *_cpu()), KernelState("GPU", *_gpu()), KernelState("C++ launches", *_native())]


def _cpu() -> tuple[str, str]:
    if current() == "plain":
        return "plain", "RANKGRAD_BACKEND is plain"
    if find_spec("numba") is None:
        return "none", "Numba is not installed: install rankgrad again"
    return "fused", f"Numba {version('numba')} compiles the kernels of {len(FUSED)} losses; other losses are plain"


def _gpu() -> tuple[str, str]:
    if torch.version.cuda is None:
        return "none", f"PyTorch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "none", f"PyTorch {torch.__version__} finds no GPU"
    if current() == "plain":
        return "plain", "RANKGRAD_BACKEND is plain"
    if find_spec("triton") is None:
        return "plain", "Triton is not installed"
    # FastSort has a kernel only for the CPU.
    return (
        "fused",
        f"Triton {version('triton')} compiles the kernels of {len(FUSED) - 1} losses; other losses are plain",
    )


def _native() -> tuple[str, str]:
    if not native_wanted():
        return "off", "RANKGRAD_NATIVE is not 1"
    if _gpu()[0] != "fused":
        return "off", "there are no fused kernels on a GPU"
    from rankgrad.kernels.cuda.native import compiler

    found = compiler()
    return ("off", "there is no C++ compiler (CXX, or c++)") if found is None else ("on", f"the compiler is {found}")
