"""Hashes of the files of an encoder, in a file of its folder: damage is noticed before the encoder is used."""

import shlex
from pathlib import Path

from rankgrad.atomic_files import hash_of_file, read_json, write_json
from rankgrad.errors import bad_value

SEAL = "rankgrad.json"  # `transformers` and `sentence-transformers` ignore a file with this name
_FORMAT = "rankgrad encoder files"


def seal_encoder(folder: Path) -> int:
    """Write the hashes of all files of an encoder, and return the number of files.

    Args:
        folder: folder of the encoder.
    """
    found = {name: hash_of_file(folder / name) for name in _names(folder)}
    write_json(folder / SEAL, {"format": _FORMAT, "version": 1, "files": found}, seal=True)
    return len(found)


def check_seal(folder: Path) -> None:
    """Raise an error if a file of a sealed encoder was changed, added or removed. Other folders are not checked.

    Args:
        folder: folder of the encoder.
    """
    if not (folder / SEAL).is_file():
        return
    about = read_json(folder / SEAL)
    known = about.get("files")
    if about.get("format") != _FORMAT or not isinstance(known, dict):
        bad_value(str(folder / SEAL), f"have the format {_FORMAT!r} and a mapping as `files`", about.get("format"))
    there = _names(folder)
    for name in sorted(known.keys() | there):
        if name not in there:
            got = "no such file"
        elif name not in known:
            got = "a new file"
        elif known[name] != hash_of_file(folder / name):
            got = "different content"
        else:
            continue
        seal = f"if you edited the folder, run `rankgrad text seal {shlex.quote(str(folder))}`; otherwise restore it"
        bad_value(str(folder / name), f"be unchanged since the encoder was saved ({seal})", got)


def _names(folder: Path) -> set[str]:
    """Return the names of the files that may decide about scores: all except hidden files and notes."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    shown = {path for path in found if not any(part.startswith(".") for part in path.parts)}
    return {path.as_posix() for path in shown if path.suffix != ".md"} - {SEAL}
