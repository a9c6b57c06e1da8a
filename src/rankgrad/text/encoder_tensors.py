"""Read the tensors of an encoder: one safetensors file, or several files with an index."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rankgrad.atomic_files import read_json
from rankgrad.errors import bad_value

ONE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FLOATS = ("F64", "F32", "F16", "BF16")
_OTHER = ("I64", "I32", "BOOL", "U8", "I16", "I8", "U16", "U32", "U64")  # of buffers, such as positions


def tensor_sizes(folder: Path) -> dict[str, int]:
    """Return the number of entries of each tensor of an encoder. Only the headers of the files are read.

    Args:
        folder: folder of the encoder.
    """
    sizes: dict[str, int] = {}
    for path, name, part in _entries(folder, lambda file, name: file.get_slice(name)):
        if part.get_dtype() not in _FLOATS + _OTHER:
            bad_value(str(path), f"contain numbers of the types {', '.join(_FLOATS)}", part.get_dtype())
        sizes[name] = torch.Size(part.get_shape()).numel()
    return sizes


def read_encoder_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of an encoder, with all real numbers in float32.

    Args:
        folder: folder of the encoder.
    """
    tensors = {name: tensor for _, name, tensor in _entries(folder, lambda file, name: file.get_tensor(name))}
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def _entries(folder: Path, read: Callable[[Any, str], Any]) -> Iterator[tuple[Path, str, Any]]:
    """Yield each tensor of an encoder, as `read` returns it from the open file, with its file and its name."""
    from safetensors import SafetensorError, safe_open

    for path in _paths(folder):
        if not path.is_file():
            must = "be a model that transformers can load, with weights as safetensors"
            bad_value("encoder", must, f"no file {path}")
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118
                    yield path, name, read(file, name)
        except SafetensorError as error:
            bad_value("encoder", "be a model that transformers can load", f"the damaged file {path}: {error}")


def _paths(folder: Path) -> list[Path]:
    if (folder / ONE).is_file() or not (folder / _INDEX).is_file():
        return [folder / ONE]
    known = read_json(folder / _INDEX).get("weight_map")
    names = sorted(map(str, known.values())) if isinstance(known, dict) else [""]
    for name in names:
        if Path(name).name != name or not name:
            bad_value(str(folder / _INDEX), "contain names of files as `weight_map`", repr(name))
    return [folder / name for name in dict.fromkeys(names)]
