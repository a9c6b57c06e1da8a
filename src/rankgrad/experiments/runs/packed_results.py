"""Read packed results and arrays of unknown origin, with limits on their unpacked size."""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.errors import bad_value

LIMIT = 1_000_000_000  # maximum unpacked size in bytes; a study with 2,000 runs has 40 MB
_MEMORY = 256_000_000  # maximum memory for unpacking in bytes; a file from `pack` needs 65 MB
_LARGEST = 1e30  # maximum value in an array; metrics are smaller, and squares of larger values may overflow


def archive_members(file: Path, limit: int = LIMIT) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file in packed results (`.tar.xz`). Nothing is written to disk.

    Args:
        file: path of the packed file; its members must be files and folders, not links or devices.
        limit: maximum unpacked size in bytes.
    """
    try:
        with (
            open(file, "rb") as packed,
            tarfile.open(fileobj=_Unpacked(packed, file, limit), mode="r|") as archive,  # type: ignore[call-overload]
        ):
            for entry in archive:
                # A sparse file may be much larger than its stored content.
                if not (entry.isreg() or entry.isdir()) or entry.issparse():
                    bad_value(
                        str(file),
                        "contain only plain files",
                        f"the entry {entry.name!r}, which is a link, a device or a sparse file",
                    )
                if entry.isfile():
                    content = archive.extractfile(entry)
                    assert content is not None
                    yield entry.name, content.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError, OverflowError, UnicodeError) as error:
        bad_value(str(file), "be packed results", f"the error {error}")


class _Unpacked:
    """Reader that unpacks packed results (an xz file) from the start to the end."""

    def __init__(self, packed: Any, name: Path, limit: int) -> None:
        self.packed, self.name, self.limit, self.left = packed, name, limit, limit
        self.unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)

    def read(self, size: int) -> bytes:
        """Return the next unpacked bytes, at most `size`; at the end of the file, return no bytes."""
        while not self.unpacker.eof:
            packed = self.packed.read(1 << 16) if self.unpacker.needs_input else b""
            if self.unpacker.needs_input and not packed:
                raise EOFError("the file is truncated")
            if found := self.unpacker.decompress(packed, size):
                self.left -= len(found)
                if self.left < 0:
                    how = "unpack a larger file with `tar`, and use the folder"
                    bad_value(str(self.name), f"contain at most {self.limit:,} bytes ({how})", "more bytes")
                return found
        return b""


def read_npz(source: Path | bytes, name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of a result from an `.npz` file; `name` is the name of the file in errors.

    A file declares the sizes of its arrays, and `numpy.load` allocates memory of these sizes. This function first
    checks that the content has these sizes. The arrays contain numbers or texts.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            if sum(entry.file_size for entry in file.infolist()) > LIMIT:
                bad_value("arrays", f"have at most {LIMIT:,} bytes", "more bytes")
            entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
            return _fitting({key: _array(file.read(entry)) for key, entry in entries.items()})
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        # zipfile raises RuntimeError if the content is encrypted, or compressed by an unknown method.
        how = "delete this file and the .json file with the same name, and run the experiment again"
        bad_value(name, f"contain the arrays of a result ({how})", f"the error {error}")


def _array(content: bytes) -> NDArray[Any]:
    stream = io.BytesIO(content)
    if (version := np.lib.format.read_magic(stream)) != (1, 0):
        bad_value("array", "have format version (1, 0)", version)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if len(shape) != 1 or dtype.kind not in "fU" or dtype.itemsize == 0:
        bad_value("array", "have one dimension, and contain numbers or texts", f"{dtype} of shape {shape}"[:80])
    size = len(content) - stream.tell()
    if shape[0] < 0 or shape[0] * dtype.itemsize != size:
        bad_value("array", f"contain {shape[0]} values of {dtype.itemsize} bytes each", f"{size} bytes")
    found = np.frombuffer(content, dtype=dtype, offset=stream.tell())
    if dtype.kind == "f":
        large = np.abs(found, where=~np.isnan(found), out=np.zeros(len(found)))
        if large.max(initial=0.0) > _LARGEST:
            bad_value("array", f"contain values of at most {_LARGEST:g}", f"{large.max():g}")
    else:
        letters = np.frombuffer(content, dtype=f"{dtype.byteorder}u4", offset=stream.tell())
        if ((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any():
            bad_value("array", "contain valid text", "an invalid character")
    return found


def _fitting(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Check and return the arrays of a result: query ids, values per query of each metric, and optional scores."""
    for name, array in arrays.items():
        if (array.dtype.kind == "U") != (name == "queries"):
            what = "text" if name == "queries" else "numbers"
            bad_value(f"array {name!r}"[:60], f"contain {what}", array.dtype)
        if name != "scores" and len(array) != len(arrays.get("queries", ())):
            queries = len(arrays.get("queries", ()))
            bad_value(f"array {name!r}"[:60], f"have one value per query ({queries} queries)", f"{len(array)} values")
    return arrays
