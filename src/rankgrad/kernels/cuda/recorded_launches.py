"""Calls that were made before: the same kernels on other tensors, and nothing else.

What a loss launches depends on its options and on the shape and dtype of what it is given. The first call of a kind
goes the ordinary way and is written down; later ones take their scratch in one piece and launch: from C++ where that
is built, else from here. Triton's own way to a kernel it has compiled takes three times as long as the launch.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rankgrad.kernels.cuda import native

_active = threading.local()


def room(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised memory for a kernel, on the device of `like` and in its dtype."""
    tensor = torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_room(tensor)
    return tensor


def as_bytes(flags: Tensor | None, instead: Tensor) -> Tensor:
    """Booleans as bytes, which Triton can load; `instead`, never read, where there are none."""
    if flags is None:
        return instead
    view = flags.contiguous().view(torch.uint8)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_view(view, flags)
    return view


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run a Triton kernel."""
    compiled = kernel[grid](*arguments, **constants)
    if (recording := getattr(_active, "recording", None)) is not None:
        recording.add_launch(kernel, compiled, grid, arguments, constants)


class Launch(NamedTuple):
    """One launch of a compiled kernel; of tensors, argument, base and offset stand for the value."""

    compiled: Any
    grid: tuple[int, int, int]
    names: list[str]
    values: list[Any]
    tensors: list[Any]


class Recording:
    """The launches of one call, in a `with` block. Its tensors are inputs, outputs and scratch.

    An input that is another one, too, cannot be told from it: `whole` is then False, as it is with tensors that come
    from elsewhere, and with a Triton (or its interpreter) that hides what a launch takes.
    """

    def __init__(self, inputs: Sequence[Tensor | None]) -> None:
        self._kept: list[Any] = [*inputs]  # so that no two tensors that are seen here have the same id
        self._places = {id(tensor): (which, 0) for which, tensor in enumerate(inputs) if tensor is not None}
        self.whole = len(self._places) == sum(tensor is not None for tensor in inputs)
        self._outputs: tuple[tuple[torch.Size, torch.dtype], ...] = ()
        self._scratch = len(inputs)
        self._bytes = 0
        self._rooms: list[Tensor] = []
        self._views: dict[int, int] = {}
        self._launches: list[Launch] = []
        self._plan: Any = None

    def __enter__(self) -> "Recording":
        _active.recording = self
        return self

    def __exit__(self, *_: object) -> None:
        _active.recording = None

    def add_room(self, tensor: Tensor) -> None:
        """Take note of a tensor that was made here."""
        self._kept.append(tensor)
        self._rooms.append(tensor)
        self._places[id(tensor)] = (self._scratch, 0)

    def add_view(self, view: Tensor, tensor: Tensor) -> None:
        """The same memory, under another dtype."""
        self._kept.append(view)
        if view.data_ptr() == tensor.data_ptr():
            self._views[id(view)] = id(tensor)

    def add_launch(self, kernel: Any, compiled: Any, grid: tuple[int, ...], arguments: Any, constants: Any) -> None:
        """Write a launch down."""
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
        """Say which tensors are the outputs, and of which shape; they have memory of their own in every call."""
        for tensor in self._rooms:
            if all(tensor is not output for output, _ in outputs):
                self._places[id(tensor)] = (self._scratch, self._bytes)
                self._bytes += -(-tensor.nbytes // 256) * 256  # aligned like the allocator's, as Triton saw them
        for which, (tensor, _) in enumerate(outputs):
            self._places[id(tensor)] = (self._scratch + 1 + which, 0)
        self._outputs = tuple((shape, tensor.dtype) for tensor, shape in outputs)
        for launch in self._launches:
            found = [self._places.get(self._views.get(name, name)) for _, name in launch.tensors]
            self.whole = self.whole and None not in found
            launch.tensors[:] = [(at, *(place or (0, 0))) for (at, _), place in zip(launch.tensors, found, strict=True)]
        self._kept, self._rooms, self._places, self._views = [], [], {}, {}

    def again(self, inputs: list[int], device: torch.device, built: Any = None) -> list[Tensor]:
        """The same on other inputs, told by their addresses; returns new outputs. `built` is the C++, where it runs."""
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
