"""Read and write files that contain a hash. Writes are atomic: a temporary file is written, and then renamed.

The hash of a file is in the file itself. Therefore, one rename replaces content and hash together. A file without a
hash is read without a check. Such a file was written before version 0.2, or by hand.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from torch import Tensor

HASH = "sha256"  # key of the hash in a JSON file, and in the facts of a safetensors file
_FIX = "restore the file from a copy, or create it again"
# Temporary names: `.name.host.process.random`, which `aside` returns, and `.name.process` of version 0.1.
_LEFTOVER = re.compile(r"\..+\.(?P<host>[^.]+)\.(?P<pid>\d+)\.[0-9a-f]{32}(\.old)?|\..+\.\d+")
_LENGTH = 40  # maximum length of the name and of the host in a temporary name; file systems allow 255 bytes
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_open: set[Path] = set()  # temporary files of this process


def aside(path: Path) -> Path:
    """Return the path of a temporary file for an atomic write of `path`: a random name in the same folder."""
    return path.with_name(f".{path.name[:_LENGTH]}.{_host()}.{os.getpid()}.{secrets.token_hex(16)}")


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary files that killed processes left in a folder.

    Args:
        folder: folder to clean.
        name: name of the file or folder that will be written. A temporary file is removed only if it is for this name,
            and if the process that created the file ran on this machine and has ended. With None, all temporary files
            in the folder are removed, except files of running processes of this machine. Before a call with None, the
            caller must lock the folder.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        found = _LEFTOVER.fullmatch(path.name)
        if found is None or path in _open:
            continue
        here = found["host"] == _host()
        mine = here and int(found["pid"]) == os.getpid()  # also true for an earlier process with the same id
        if here and not (mine and name is None) and _alive(int(found["pid"])):
            continue
        if name is None and (path.is_symlink() or path.is_file()):
            path.unlink(missing_ok=True)
        elif name is not None and here and path.name.startswith(f".{name[:_LENGTH]}.{_host()}."):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file, which replaces `path` if the `with` block raises no error.

    The message of a system error, such as a full disk, contains `path` instead of the temporary name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = aside(path)
    _open.add(temporary)
    with naming(path):
        # O_EXCL: an existing file or link is never opened.
        file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666), "wb")
    try:
        try:
            yield file
            with naming(path):
                file.flush()
                os.fsync(file.fileno())
        finally:
            with naming(path):
                file.close()
        with naming(path):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        _open.discard(temporary)


@contextmanager
def writing_output(path: Path) -> Iterator[BinaryIO]:
    """Open an output file of the user. The new content replaces `path` only if the `with` block raises no error.

    If `path` is a symbolic link, the new content replaces the target of the link. The permissions of an existing file
    do not change. A device or a pipe is opened directly.
    """
    target = Path(os.path.realpath(path))
    if path.exists() and not target.is_file():
        with naming(path), open(path, "wb") as device:
            yield device
        return
    with writing(target) as file:
        if target.exists():
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
        yield file


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Set the file name of each system error in the `with` block to `path`, instead of a temporary name."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        del error.filename2  # the second file name, which the error of a rename has
        raise


def open_to_append(path: Path, length: int | None = None) -> BinaryIO:
    """Open an output file for appending, and cut the file to `length` bytes if given. A symbolic link is an error."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        bad_value(str(path), "be a plain file (remove the link or device first)", "a link or a device")
    with naming(path):
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o666), "ab")
        if length is not None:
            file.truncate(min(length, os.fstat(file.fileno()).st_size))
        return file


def check_plain(folder: Path) -> None:
    """Check that an output folder contains no symbolic link."""
    for path in folder.iterdir():
        if path.is_symlink():
            must = "not be a symbolic link, because a run would write to the target of the link (remove the link first)"
            bad_value(str(path), must, "a symbolic link")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file, then rename it."""
    with writing(path) as file, naming(path):
        file.write(content)


def write_json(path: Path, value: Any, *, seal: bool = False) -> None:
    """Write a JSON file atomically, with one key per line; NaN is an error.

    With `seal`, the file also contains a hash, which `read_json` checks.
    """
    if seal:
        value = {**value, HASH: _hash_of_json(json.loads(json.dumps(value, allow_nan=False)))}
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file, check its hash, and return its dictionary without the hash. Errors contain the path."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        bad_value(str(path), f"be JSON ({_FIX})", f"the error {error}")
    if not isinstance(value, dict):
        bad_value(str(path), f"be a JSON object ({_FIX})", f"a {type(value).__name__}")
    if (known := value.pop(HASH, None)) is not None and known != _hash_of_json(value):
        fix = f'if you edited the file by hand, delete the key "{HASH}"; otherwise {_FIX}'
        bad_value(str(path), f"be unchanged since it was written ({fix})", "different content")
    return value


def write_tensors(path: Path, tensors: dict[str, "Tensor"], facts: dict[str, Any] | None = None) -> None:
    """Write a safetensors file atomically. Its header contains `facts` as JSON, and a hash of tensors and facts."""
    from safetensors.torch import save

    kept: dict[str, Tensor] = {}
    places = set()
    for name, tensor in tensors.items():
        kept[name] = tensor.detach().cpu().contiguous()
        if (place := kept[name].untyped_storage().data_ptr()) in places:
            kept[name] = kept[name].clone()  # the format does not support weights that several layers share
        places.add(place)
    # The hash is part of the facts, because several entries of metadata would have no fixed order in the file.
    header = {**(facts or {}), HASH: _hash_of_tensors(kept, facts or {})}
    write_bytes(path, save(kept, {"facts": json.dumps(header)}))


def read_tensors(path: Path) -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """Read a safetensors file, check its hash, and return its tensors and facts. No code in the file is run."""
    from safetensors import SafetensorError, safe_open

    def damaged(got: object) -> NoReturn:
        bad_value(str(path), f"be a complete, unchanged safetensors file ({_FIX})", got)

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(header.get("facts", "{}"))
    except (SafetensorError, ValueError, RecursionError) as error:
        damaged(f"the error {error}")
    if not isinstance(facts, dict) or not header.keys() <= {"facts", "format"}:
        damaged("a header that another program wrote")
    if (known := facts.pop(HASH, None)) is not None and known != _hash_of_tensors(tensors, facts):
        damaged("damaged content")
    return tensors, facts


def under(prefix: str, tensors: dict[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Return the tensors of a file whose names begin with a prefix, without the prefix."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def hash_of(content: bytes) -> str:
    """Return the SHA-256 hash of the content of a file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 hash of a file, which may be larger than the memory."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def check_unchanged(folder: Path, known: Mapping[str, str | None], hint: str) -> None:
    """Check the hashes of files, by name; None if only the file must exist. The hint says what to do."""
    for name, hashed in known.items():
        path = folder / name
        if not path.is_file() or (hashed is not None and hash_of_file(path) != hashed):
            got = "different content" if path.is_file() else "no such file"
            bad_value(str(path), f"be unchanged since it was written ({hint})", got)


def _hash_of_json(value: Any) -> str:
    return hash_of(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _hash_of_tensors(tensors: dict[str, "Tensor"], facts: dict[str, Any]) -> str:
    import torch

    found = hashlib.sha256(_hash_of_json(json.loads(json.dumps(facts))).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _host() -> str:
    return socket.gethostname().replace(".", "-")[:_LENGTH] or "localhost"


def _alive(pid: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True
