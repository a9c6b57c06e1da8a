"""Records the kernel launches of a call on a GPU, and repeats these launches with other tensors.

The launches of a loss depend only on its options and on the shape and dtype of its inputs. The first call is recorded.
Later calls with the same options, shapes and dtypes allocate their scratch memory in one piece and launch the kernels,
from C++ if the C++ module is built, otherwise from Python. This saves time, because Triton needs three times as much
time to find a compiled kernel as to launch it.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.kernels.cuda import native

_active = threading.local()


def allocate(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate an uninitialised tensor for a Triton kernel, and add it to the active recording, if any.

    The tensor is on the device of `like`. The default dtype is the dtype of `like`.
    """
    tensor = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_allocated(tensor)
    return tensor


def as_bytes(flags: Tensor | None, instead: Tensor) -> Tensor:
    """Return booleans as bytes, which Triton can load. If `flags` is None, return `instead`, which is not read."""
    if flags is None:
        return instead
    view = flags.contiguous().view(torch.uint8)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_view(view, flags)
    return view


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run a Triton kernel. If a recording is active, add the launch to the recording."""
    compiled = kernel[grid](*arguments, **constants)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_launch(kernel, compiled, grid, arguments, constants)


class Launch(NamedTuple):
    """One recorded launch of a compiled Triton kernel.

    For an argument that is a tensor, `values` contains None, and `tensors` contains the index of the argument, the
    index of its base and its offset from the base. Bases are the inputs, the scratch memory and the outputs of a call.
    """

    compiled: Any
    grid: tuple[int, int, int]
    names: list[str]
    values: list[Any]
    tensors: list[Any]


class Recording:
    """Records the launches of one call, in a `with` block. The tensors of a call are inputs, outputs or scratch memory.

    `whole` is False if the call cannot be repeated. There are three possible reasons: two inputs are the same
    tensor; a kernel takes a tensor that was not recorded; Triton (or its interpreter) does not return the compiled
    kernel.
    """

    def __init__(self, inputs: Sequence[Tensor | None]) -> None:
        self._kept: list[Any] = [*inputs]  # kept alive, so that no two recorded tensors have the same id
        self._places = {id(tensor): (which, 0) for which, tensor in enumerate(inputs) if tensor is not None}
        self.whole = len(self._places) == sum(tensor is not None for tensor in inputs)
        self._outputs: tuple[tuple[torch.Size, torch.dtype], ...] = ()
        self._scratch = len(inputs)
        self._bytes = 0
        self._allocated: list[Tensor] = []
        self._views: dict[int, int] = {}
        self._launches: list[Launch] = []
        self._plan: Any = None

    def __enter__(self) -> "Recording":
        _active.recording = self
        return self

    def __exit__(self, *_: object) -> None:
        _active.recording = None

    def add_allocated(self, tensor: Tensor) -> None:
        """Record a tensor that was allocated in this call on a GPU."""
        self._kept.append(tensor)
        self._allocated.append(tensor)
        self._places[id(tensor)] = (self._scratch, 0)

    def add_view(self, view: Tensor, tensor: Tensor) -> None:
        """Record `view`, the GPU tensor `tensor` with another dtype. Usually both have the same memory."""
        self._kept.append(view)
        if view.data_ptr() == tensor.data_ptr():
            self._views[id(view)] = id(tensor)

    def add_launch(self, kernel: Any, compiled: Any, grid: tuple[int, ...], arguments: Any, constants: Any) -> None:
        """Record a launch of a Triton kernel."""
        if not all(hasattr(compiled, name) for name in ("run", "function", "packed_metadata")):
            self.whole = False
            return
        self._kept.append(arguments)
        named = dict(zip(kernel.arg_names, arguments, strict=False)) | constants
        values = [named[name] for name in kernel.arg_names]
        tensors = [(at, id(value)) for at, value in enumerate(values) if isinstance(value, Tensor)]
        for at, _ in tensors:
            values[at] = None
        x, y, z = (*grid, 1, 1)[:3]
        self._launches.append(Launch(compiled, (x, y, z), kernel.arg_names, values, tensors))

    def finish(self, *outputs: tuple[Tensor, torch.Size]) -> None:
        """End the recording: set the output tensors and their shapes. Each repeated call allocates new outputs."""
        for tensor in self._allocated:
            if all(tensor is not output for output, _ in outputs):
                self._places[id(tensor)] = (self._scratch, self._bytes)
                self._bytes += -(-tensor.nbytes // 256) * 256  # alignment of the allocator, which Triton assumes
        for which, (tensor, _) in enumerate(outputs):
            self._places[id(tensor)] = (self._scratch + 1 + which, 0)
        self._outputs = tuple((shape, tensor.dtype) for tensor, shape in outputs)
        for launch in self._launches:
            found = [self._places.get(self._views.get(name, name)) for _, name in launch.tensors]
            self.whole = self.whole and None not in found
            launch.tensors[:] = [(at, *(place or (0, 0))) for (at, _), place in zip(launch.tensors, found, strict=True)]
        self._kept, self._allocated, self._places, self._views = [], [], {}, {}

    def again(self, inputs: list[int], device: torch.device, built: Any = None) -> list[Tensor]:
        """Repeat the recorded launches on the inputs at these addresses. Return new outputs.

        `built` is the C++ module or None.
        """
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        if built is not None:
            if self._plan is None:
                self._plan = native.plan(built, self._launches, self._outputs, self._bytes, str(device)) or ()
            if self._plan:
                found: list[Tensor] = built.run(self._plan, stream, inputs)
                return found
        outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self._outputs]
        scratch = torch.empty(self._bytes, dtype=torch.uint8, device=device) if self._bytes else None
        bases = [*inputs, 0 if scratch is None else scratch.data_ptr(), *[output.data_ptr() for output in outputs]]
        for compiled, grid, _, values, tensors in self._launches:
            arguments = values.copy()
            for at, base, offset in tensors:
                arguments[at] = bases[base] + offset
            entry = (stream, compiled.function, compiled.packed_metadata, None, None, None)
            compiled.run(*grid, *entry, *arguments)
        return outputs
