"""What a job has left, as a flat mapping from a name to a value: everything but seconds, versions and paths."""

import difflib
import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

# Keys of JSON that differ between two equal runs. A file's own hash also covers these.
VOLATILE = re.compile(
    r"seconds|latency|memory|(log|cache)_bytes|^(sha256|spent|learning|finished|machine|commit|versions)$"
)
TIMES = re.compile(r"\b\d[\d,.]* ?(s|ms|min|minutes|seconds)\b|\b0x[0-9a-f]{6,}")  # and addresses
SECONDS_COLUMN = re.compile(r"^(\s*c\d{3} .*\s)\d+\.\d\s")  # in the table of `rankgrad auto`
BOXES = re.compile(r"[\s\u2500-\u257f]+")
# Lines that may differ: the compilation of kernels, and charts of a page that are sorted by seconds.
UNEQUAL = re.compile(r"rankgrad: compiled the .* kernels|.*\"seconds\"")
PEAK, LEAST = 0.1, 4 << 20  # two peaks of memory are equal up to this share, and these bytes


def cleaned(text: str, places: dict[str, str]) -> list[str]:
    """Return the lines of a text without times, and with a name instead of each folder."""
    for folder, name in sorted(places.items(), key=lambda each: -len(each[0])):
        text = text.replace(folder, name)
    lines = [
        BOXES.sub(" ", TIMES.sub("TIME", SECONDS_COLUMN.sub(r"\1TIME ", line))).strip() for line in text.splitlines()
    ]
    return [line for line in lines if line and not UNEQUAL.match(line)]


def array_text(kind: str, shape: Any, content: bytes) -> str:
    """Return the type, the shape, the sum (to see how large a difference is) and a hash of an array."""
    known = {"F32": "f4", "F64": "f8", "float32": "f4", "float64": "f8"}.get(kind)
    total = f" sum {np.frombuffer(content, known).astype(float).sum():.9g}" if known else ""
    return f"{kind} {list(shape)}{total} {hashlib.sha256(content).hexdigest()[:12]}"


def of_json(value: Any, where: str, places: dict[str, str]) -> dict[str, Any]:
    """Return the leaves of a JSON value, without volatile keys."""
    if isinstance(value, dict):
        inner = [(key, each) for key, each in value.items() if not VOLATILE.search(str(key))]
        found = [of_json(each, f"{where}.{key}".lstrip("."), places) for key, each in inner]
        return {key: leaf for each in found for key, leaf in each.items()}
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return {
            k: leaf
            for n, each in enumerate(value)
            for k, leaf in of_json(each, f"{where}.{n}".lstrip("."), places).items()
        }
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        text = "\n".join(value)
        return of_json(text, where, places) if text[0:1] in ("{", "[") else {where: cleaned(text, places)}
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return of_json(json.loads(value), where, places)
        except ValueError:
            pass
    return {where: cleaned(value, places) if isinstance(value, str) else value}


def of_safetensors(content: bytes, places: dict[str, str]) -> dict[str, Any]:
    """Return the tensors and the metadata of a file."""
    length = struct.unpack("<Q", content[:8])[0]
    head, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    found = of_json(head.pop("__metadata__", {}), "metadata", places)
    for name, tensor in head.items():
        begin, end = tensor["data_offsets"]
        found[name] = array_text(tensor["dtype"], tensor["shape"], body[begin:end])
    return found


def of_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of a NumPy file."""
    read = np.load(path)
    arrays = {"array": read} if isinstance(read, np.ndarray) else dict(read)
    return {name: array_text(str(each.dtype), each.shape, each.tobytes()) for name, each in arrays.items()}


def of_onnx(path: Path) -> dict[str, Any]:
    """Return operators, initialisers, metadata and signature of an ONNX file."""
    import onnx

    model = onnx.load(path)
    graph = model.graph
    found: dict[str, Any] = {"operators": " ".join(node.op_type for node in graph.node)}
    found["signature"] = " ".join(each.name for each in (*graph.input, *graph.output))
    found |= {f"metadata.{each.key}": each.value for each in model.metadata_props}
    for each in graph.initializer:
        array = onnx.numpy_helper.to_array(each)
        found[f"initialiser.{each.name}"] = array_text(str(array.dtype), array.shape, array.tobytes())
    return found


def of_table(path: Path) -> dict[str, Any]:
    """Return type and values of each column of a Parquet file."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = zip(table.schema.names, table.schema.types, table.columns, strict=True)
    return {name: f"{kind} {hash_of(repr(column.to_pylist()).encode())}" for name, kind, column in columns}


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def of_file(path: Path, places: dict[str, str]) -> dict[str, Any]:
    """Return what a file contains; a text is a list of lines."""
    if path.suffix == ".safetensors":
        return of_safetensors(path.read_bytes(), places)
    if path.suffix in (".npy", ".npz"):
        return of_arrays(path)
    if path.suffix == ".onnx":
        return of_onnx(path)
    if path.suffix == ".parquet":
        return of_table(path)
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"bytes": hash_of(content)}
    try:
        if path.suffix == ".json":
            return of_json(json.loads(text), "", places)
        if path.suffix == ".jsonl":
            return of_json([json.loads(line) for line in text.splitlines()], "", places)
    except ValueError:
        pass
    return {"text": cleaned(text, places)}


def of_folder(folder: Path, places: dict[str, str]) -> dict[str, Any]:
    """Return everything that a job has left in its folder."""
    places = {**places, str(folder): "HERE"}
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.endswith((".lock", ".partial")):
            for what, value in of_file(path, places).items():
                found[f"{name}: {what}"] = value
    return found


def differences(base: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return what differs: its name, and the two values."""
    found = []
    for what in dict.fromkeys([*base, *new]):
        one, other = base.get(what, "-"), new.get(what, "-")
        if what.endswith("peak bytes") and "-" not in (one, other):
            if abs(one - other) > LEAST + PEAK * max(one, other):
                found.append((what, f"{one / 2**20:.1f} MiB", f"{other / 2**20:.1f} MiB"))
        elif isinstance(one, list) and isinstance(other, list):
            for kind, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
                if kind != "equal":
                    found.append((what, " / ".join(map(str, one[a:b])), " / ".join(map(str, other[c:d]))))
        elif repr(one) != repr(other):
            found.append((what, str(one), str(other)))
    return found
