"""Read a folder of plain text files, one document per file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rankgrad.text.formats.records import Record
from rankgrad.text.formats.text_files import TextFiles

ENDINGS = (".txt", ".txt.gz")


def is_text(path: Path) -> bool:
    """Return True if the name of a file ends in `.txt` or `.txt.gz`."""
    return path.name.lower().endswith(ENDINGS)


def documents(root: Path, paths: Sequence[Path], files: TextFiles) -> Iterator[Record]:
    """Yield one document per file. Its id is the path in the folder, without the ending: for example, `2024/report`.

    Args:
        root: the folder.
        paths: the files.
        files: reader of the files.
    """
    for path in paths:
        name = path.relative_to(root).as_posix()
        ending = next(each for each in reversed(ENDINGS) if name.lower().endswith(each))
        yield Record(name[: -len(ending)], files.text(path), None, path, 1)
