"""Open text files, plain or gzip, and count the characters that cannot be decoded."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from rankgrad.errors import BadValue, Place, Problem, bad_value

_START = 4096  # bytes by which the format of a file is recognised
_GZIP = b"\x1f\x8b"
_FOREIGN = {
    b"\x1f\x9d": ("data of compress (.z, .Z)", "a plain or gzip file: run `gzip -dc < FILE > NEW_FILE`"),
    b"BZh": ("bzip2 data", "a plain or gzip file: run `bzip2 -d FILE`"),
    b"\xfd7zXZ\0": ("xz data", "a plain or gzip file: run `xz -d FILE`"),
    b"\x28\xb5\x2f\xfd": ("zstandard data", "a plain or gzip file: run `zstd -d FILE`"),
    b"PK\x03\x04": ("a zip archive", "the files that it contains: run `unzip FILE`"),
}
_ARCHIVES = tuple(mark for mark in _FOREIGN if mark != b"\x1f\x9d")  # TREC's disks contain data of compress
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def bad_file(path: Path, line: int | None, found: str, expected: str) -> NoReturn:
    """Raise a `ValueError` about a text file: `docs.jsonl:7: no id; expected ...`."""
    raise BadValue(Problem("", expected, found, where=(Place(str(path), line),)))


class TextFiles:
    """Reader of the text files of a collection. It counts characters that cannot be decoded.

    Args:
        encoding: encoding of the files. A byte order mark is removed.
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        try:
            b"\n".decode(encoding)
            self.encoding = codecs.lookup(encoding).name
        except (LookupError, UnicodeError):
            must = "be an encoding that Python knows and that contains ASCII, such as 'utf-8' or 'latin-1'"
            bad_value("encoding", must, repr(encoding))
        self.notes: list[str] = []
        self._undecoded: dict[Path, tuple[int, int]] = {}  # number of characters, line of the first

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line of a text file. The text includes the line end."""
        number = 0
        with self._open(path) as file:
            try:
                for number, line in enumerate(file, 1):
                    yield number, self._decode(line, path, number)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                bad_file(path, number + 1, f"the gzip data ends early or is damaged ({error})", "a complete file")

    def text(self, path: Path) -> str:
        """Return the complete text of a text file, plain or gzip."""
        return "".join(line for _, line in self.lines(path))

    def start(self, path: Path) -> str:
        """Return the first characters of a text file, without white space at the start, to recognise the format."""
        with self._open(path) as file:
            try:
                return file.read(_START).decode(self.encoding, "replace").lstrip("\ufeff \t\r\n\f")
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                bad_file(path, 1, f"the gzip data ends early or is damaged ({error})", "a complete file")

    @staticmethod
    def is_archive(path: Path) -> bool:
        """Return True for an archive, and for a file that is compressed by a program other than gzip and compress."""
        return _head(path).startswith(_ARCHIVES)

    def undecoded(self, path: Path, line: int, count: int) -> None:
        """Count characters that are not valid text. `all_notes` returns one sentence about these characters."""
        before, first = self._undecoded.get(path, (0, line))
        self._undecoded[path] = before + count, first

    def all_notes(self) -> list[str]:
        """Return the notes about the text files, including a note about characters that cannot be decoded."""
        if not self._undecoded:
            return self.notes
        path, (_, line) = next(iter(self._undecoded.items()))
        count, files = sum(number for number, _ in self._undecoded.values()), len(self._undecoded)
        where = f"{count} in {path}" if files == 1 else f"{count} in {files} files"
        name = self.encoding.upper()
        note = f"Some characters are not valid {name} and are read as '\ufffd': {where}, the first at {path}:{line}."
        return [*self.notes, note]

    def _open(self, path: Path) -> "gzip.GzipFile":
        start = _head(path)
        for mark, (found, expected) in _FOREIGN.items():
            if start.startswith(mark):
                bad_file(path, None, found, expected)
        if start.startswith(_UTF_16):
            bad_file(path, None, "UTF-16 text", "UTF-8 text: convert it with `iconv -f UTF-16 -t UTF-8`")
        # Both have the same methods; the type of a plain file is `BufferedReader`.
        return gzip.open(path, "rb") if start.startswith(_GZIP) else open(path, "rb")  # type: ignore[return-value]

    def _decode(self, line: bytes, path: Path, number: int) -> str:
        try:
            text = line.decode(self.encoding)
        except UnicodeDecodeError:
            text = line.decode(self.encoding, "replace")
            self.undecoded(path, number, text.count("\ufffd") - line.count("\ufffd".encode()))
        return text.removeprefix("\ufeff") if number == 1 else text


def _head(path: Path) -> bytes:
    """Return the first bytes of a file. A folder, a device or a pipe is an error, because it has no end."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "no such file"
        raise FileNotFoundError(f"{path}: {found}; expected a file")
    with open(path, "rb") as file:
        return file.read(8)
