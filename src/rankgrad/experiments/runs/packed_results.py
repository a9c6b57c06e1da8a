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

LIMIT = 1_000_000_000  # largest unpacked size in bytes: 25 times that of a study with 2,000 runs
_MEMORY = 256_000_000  # bytes that unpacking may need; a file from `pack` needs 65 MB
_LARGEST = 1e30  # no metric has larger values, and their squares would overflow


def members(file: Path, limit: int = LIMIT) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each plain file in a `.tar.xz`. Nothing is written to disk.

    Args:
        file: the packed file; its members must be files and folders, not links or devices.
        limit: largest unpacked size in bytes.
    """
    try:
        with (
            open(file, "rb") as packed,
            tarfile.open(fileobj=_Unpacked(packed, file, limit), mode="r|") as archive,  # type: ignore[call-overload]
        ):
            for entry in archive:
                # A sparse file may be far longer than its stored content.
                if not (entry.isreg() or entry.isdir()) or entry.issparse():
                    bad_value(
                        str(file), "hold plain files only", f"{entry.name!r}, which is a link, a device or sparse"
                    )
                if entry.isfile():
                    content = archive.extractfile(entry)
                    assert content is not None
                    yield entry.name, content.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError, OverflowError, UnicodeError) as error:
        raise ValueError(f"{file} must be packed results; got {error}") from error


class _Unpacked:
    """Reads the unpacked bytes of an xz file from the start to the end."""

    def __init__(self, packed: Any, name: Path, limit: int) -> None:
        self.packed, self.name, self.limit, self.left = packed, name, limit, limit
        self.unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; no bytes at the end."""
        while not self.unpacker.eof:
            packed = self.packed.read(1 << 16) if self.unpacker.needs_input else b""
            if self.unpacker.needs_input and not packed:
                raise EOFError("a truncated file")
            if found := self.unpacker.decompress(packed, size):
                self.left -= len(found)
                if self.left < 0:
                    how = "to read more, unpack it with `tar` and give the folder"
                    bad_value(str(self.name), f"unpack to at most {self.limit:,} bytes ({how})", "more")
                return found
        return b""


def read_npz(source: Path | bytes, name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz` file of results: lists of numbers or of texts; `name` is the name in errors.

    `numpy.load` allocates the size that a file declares. Here that size is first compared with the content.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
            if sum(entry.file_size for entry in file.infolist()) > LIMIT:
                bad_value("arrays", f"take at most {LIMIT:,} bytes", "more")
            entries = {entry.filename.removesuffix(".npy"): entry for entry in file.infolist()}
            return _fitting({key: _array(file.read(entry)) for key, entry in entries.items()})
    except (ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        # RuntimeError: encrypted, or compressed by an unknown method.
        how = "delete it and the .json of the same name, and run the experiment again"
        raise ValueError(f"{name} must be the arrays of a result ({how}); got {error}") from error


def _array(content: bytes) -> NDArray[Any]:
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        bad_value("array", "be of version 1.0", "another")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if len(shape) != 1 or dtype.kind not in "fU" or dtype.itemsize == 0:
        bad_value("array", "be a list of numbers or texts", f"{dtype} of shape {shape}"[:80])
    held = len(content) - stream.tell()
    if shape[0] < 0 or shape[0] * dtype.itemsize != held:
        bad_value("array", f"hold {shape[0]} values of {dtype.itemsize} bytes", f"{held} bytes")
    found = np.frombuffer(content, dtype=dtype, offset=stream.tell())
    if dtype.kind == "f":
        large = np.abs(found, where=~np.isnan(found), out=np.zeros(len(found)))
        if large.max(initial=0.0) > _LARGEST:
            bad_value("array", "hold values of metrics or scores", f"{large.max():g}")
    else:
        letters = np.frombuffer(content, dtype=f"{dtype.byteorder}u4", offset=stream.tell())
        if ((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any():
            bad_value("array", "hold texts", "an invalid character")
    return found


def _fitting(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Check that the arrays are query ids, one value per query for every metric, and optionally scores."""
    for name, array in arrays.items():
        if (array.dtype.kind == "U") != (name == "queries"):
            bad_value(f"array {name!r}"[:60], "have the type that its name requires", array.dtype)
        if name != "scores" and len(array) != len(arrays.get("queries", ())):
            queries = len(arrays.get("queries", ()))
            bad_value(f"array {name!r}"[:60], f"hold one value for each of {queries} queries", len(array))
    return arrays
