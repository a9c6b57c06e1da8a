"""Check and save encoders in the format of Hugging Face: a local folder, or the name of a model on the hub."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rankgrad.errors import bad_value
from rankgrad.text.encoder_seal import seal_encoder

ENCODER = "encoder"  # folder with the files of Hugging Face, inside the folder of a model
_NEW, _OLD = "encoder.new", "encoder.old"


def need_package(name: str, use: str) -> None:
    """Raise an error if a package of the extra `text` is not installed.

    Args:
        name: name of the module.
        use: name of the feature that needs the package, for the error message.
    """
    from importlib.util import find_spec

    if find_spec(name) is None:
        package = name.replace("_", "-")
        raise ModuleNotFoundError(f"{use} needs {package}: pip install 'rankgrad[text]'")


def save_pretrained(folder: Path, model: Any, tokeniser: Any) -> None:
    """Write a model of `transformers` and its tokenizer to a folder.

    Args:
        folder: existing folder.
        model: model of `transformers`.
        tokeniser: `rankgrad.text.token_inputs.Tokeniser`. Its maximum length is also saved, for other programs.
    """
    tokeniser.tokenizer.model_max_length = tokeniser.max_length
    with quiet_transformers():
        model.save_pretrained(folder)
        tokeniser.tokenizer.save_pretrained(folder)


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """Import `transformers`, and hide its progress bars and its reports, for example the report about a new head."""
    need_package("transformers", "a text ranker")
    import transformers

    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        transformers.logging.set_verbosity(level)
        transformers.logging.enable_progress_bar()


def write_modules(folder: Path, modules: Sequence[tuple[str, str]]) -> None:
    """Write `modules.json` of sentence-transformers, and make the folders of the modules.

    Args:
        folder: existing folder of the encoder.
        modules: folder, inside of `folder`, and kind of each module.
    """
    for path, _ in modules:
        (folder / path).mkdir(exist_ok=True)
    listed = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed, indent=2), encoding="utf-8")


def replace_encoder(folder: Path, write: Callable[[Path], None]) -> None:
    """Replace the folder `encoder`. After an interruption, all files are old or all files are new, never a mixture.

    Args:
        folder: folder of the model.
        write: function that takes a folder, and writes all files into this folder.
    """
    _settle_to_write(folder)
    new, old, now = folder / _NEW, folder / _OLD, folder / ENCODER
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    write(new)
    seal_encoder(new)
    for path in new.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    (new / ".complete").touch()
    shutil.rmtree(old, ignore_errors=True)
    if now.exists():
        now.rename(old)
    _settle_to_write(folder)
    shutil.rmtree(old, ignore_errors=True)


def settle_encoder(folder: Path) -> Path:
    """Finish a call of `replace_encoder` that was interrupted, and return the folder of the encoder.

    Readers and the writer may call this function at the same time: all rename the same folder, and one succeeds.

    Args:
        folder: folder of the model.
    """
    now, new, old = folder / ENCODER, folder / _NEW, folder / _OLD
    for found in (new, old):
        if not now.exists() and (found / ".complete").is_file():
            try:
                found.rename(now)
            except OSError:
                if not now.exists():  # not renamed by another process: the folder is read-only
                    return found
    return now


def _settle_to_write(folder: Path) -> None:
    """Settle the encoder before writing; raise an error if this is impossible, to protect the encoder's only copy."""
    if (found := settle_encoder(folder)) != folder / ENCODER:
        raise PermissionError(f"{found} cannot be renamed to {ENCODER}")


def gradient_checkpointing(body: nn.Module) -> None:
    """Turn on gradient checkpointing: the backward pass computes the activations of an encoder's layers again.

    Args:
        body: encoder of `transformers`.
    """
    enable = getattr(body, "gradient_checkpointing_enable", None)
    if enable is None:
        bad_value("checkpointing", "be False for an encoder without layers to checkpoint", type(body).__name__)
    enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def to_device(batch: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    """Return the tensors of a batch for an encoder on a device.

    Args:
        batch: tensors by name.
        device: device of the encoder.
    """
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
