"""Read plain or compressed LETOR files of any size as blocks of complete lines, a few megabytes per block."""

import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from rankgrad.data.letor.errors import LetorError

BLOCK = 4 << 20
LONGEST_LINE = 28 << 20
_PIECE = 1 << 20
# Maximum number of bytes for the decoder of xz: `xz -9` needs an eighth; a malicious header could require 4 GiB.
_XZ_MEMORY = 1 << 29
_MARK = b"\xef\xbb\xbf"  # UTF-8 byte order mark

_FOREIGN = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"BZh": "bzip2 data",
    b"PK\x03\x04": "a zip archive",
    b"\x28\xb5\x2f\xfd": "zstandard data",
}


@dataclass(frozen=True)
class Block:
    """Complete lines of a LETOR file, each with a newline at its end."""

    text: bytes
    line: int  # number of the first line in the file, from 1
    unterminated: bool = False  # True if the block is only the last line, and this line has no newline in the file


def split_block(block: Block, lines: int) -> Iterator[Block]:
    """Divide a block of LETOR text into parts of at most `lines` lines; each part has at least one line."""
    kept, number = block.text.splitlines(keepends=True), max(1, lines)
    for start in range(0, len(kept), number):
        yield replace(block, text=b"".join(kept[start : start + number]), line=block.line + start)


def check_file(path: Path) -> None:
    """Check that the path of LETOR text is a regular file, because the file is read twice."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; expected a file of LETOR text")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; expected a file of LETOR text")
    if not path.is_file():
        raise LetorError(
            path, None, "not a regular file", "a regular file, which can be read twice: to count, and to parse"
        )


def blocks(path: Path, on_read: Callable[[bytes], None]) -> Iterator[Block]:
    """Yield the lines of a LETOR file in blocks of about `BLOCK` bytes; compressed files are detected.

    `on_read` is called with every piece of the file, before decompression.
    """
    parts: list[bytes | memoryview] = []
    size, line = 0, 1
    with open(path, "rb") as file:
        pieces = _decompressed(file, path, on_read)
        while True:
            try:
                piece = next(pieces, None)
            except (zlib.error, lzma.LZMAError, EOFError) as error:
                line += sum(bytes(part).count(b"\n") for part in parts)
                raise LetorError(path, line, *_broken(error)) from error
            if piece is None:
                break
            stop = piece.rfind(b"\n") + 1
            if size + len(piece) < BLOCK or not stop:
                parts.append(piece)
                size += len(piece)
                if size > LONGEST_LINE + BLOCK:
                    line += sum(bytes(part).count(b"\n") for part in parts)
                    raise LetorError(path, line, f"line is longer than {LONGEST_LINE >> 20} MiB", "lines of text")
                continue
            text = b"".join([*parts, memoryview(piece)[:stop]])
            yield Block(text, line)
            line += text.count(b"\n")
            parts, size = [memoryview(piece)[stop:]], len(piece) - stop
    rest = b"".join(parts)
    stop = rest.rfind(b"\n") + 1
    if stop:
        yield Block(rest[:stop], line)
    if stop < len(rest):
        yield Block(rest[stop:] + b"\n", line + rest.count(b"\n"), unterminated=True)


def _decompressed(file: BinaryIO, path: Path, on_read: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield the bytes of a LETOR file after decompression, without a byte order mark."""
    start = file.read(6)
    for mark, what in _FOREIGN.items():
        if start.startswith(mark):
            raise LetorError(
                path, 1, f"{what} (the file starts with {mark!r})", "plain, gzip or xz data with UTF-8 or ASCII text"
            )
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        pieces = _inflate(_raw(file, on_read, _PIECE // 16), lambda: zlib.decompressobj(wbits=31), "gzip")
    elif start == b"\xfd7zXZ\0":
        pieces = _inflate(
            _raw(file, on_read, _PIECE // 16), lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), "xz"
        )
    else:
        pieces = _raw(file, on_read, BLOCK)
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= len(_MARK):
            break
    yield start.removeprefix(_MARK)
    yield from pieces


def _raw(file: BinaryIO, on_read: Callable[[bytes], None], size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        on_read(piece)
        yield piece


def _inflate(pieces: Iterator[bytes], new: Callable[[], Any], kind: str) -> Iterator[bytes]:
    """Decompress the streams of a LETOR file. Yield pieces of at most `_PIECE` bytes for any compression ratio."""
    engine = None
    for waiting in pieces:
        while waiting or not getattr(engine, "needs_input", True):
            if engine is None:
                waiting = waiting.lstrip(b"\0")  # padding after a stream is allowed
                if not waiting:
                    break
                engine = new()
            yield engine.decompress(waiting, _PIECE)
            if engine.eof:
                waiting, engine = engine.unused_data, None
            else:
                waiting = getattr(engine, "unconsumed_tail", b"")
    if engine is not None:
        raise EOFError(kind)


def _broken(error: Exception) -> tuple[str, str]:
    if isinstance(error, EOFError):
        return f"{error} data ends early", "the complete file (is it still being copied?)"
    kind = "gzip" if isinstance(error, zlib.error) else "xz"
    return f"{kind} data is damaged ({error})", f"an undamaged {kind} file"
