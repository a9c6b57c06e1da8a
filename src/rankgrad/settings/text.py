"""The settings of the training of a text ranker. The names are the same in Python, recipes and commands."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.settings.neural import AS_METRIC, AS_OPTIMISER, AS_SCHEDULE, LOSS_TEXT, METRIC_TEXT, TRACKERS
from rankgrad.settings.schema import Schema, check_device, documented, setting

STATIC = "static:"  # prefix of an encoder that only has an embedding table
SAMPLINGS = ("relevant", "pairs", "random")
PASSAGES = ("first", "mean", "best")


def _joint_loss(loss: Any) -> Any:
    from rankgrad.losses.custom import as_loss

    found = as_loss(loss)
    found.only_joint("a text ranker")
    return found


def check_encoder(encoder: Any, *, files: bool = True) -> str:
    """Check the folder or name of an encoder, and return it as text. A local folder that does not exist is an error.

    Args:
        encoder: local folder or name on the hub, with or without the prefix `static:`.
        files: False to accept a folder that does not exist.
    """
    if not isinstance(encoder, str | os.PathLike) or not str(encoder):
        bad_value("encoder", "be a folder or the name of a model on the Hugging Face hub", repr(encoder))
    text = str(encoder)
    path = Path(text.removeprefix(STATIC)).expanduser()
    local = text.removeprefix(STATIC).startswith(("/", ".", "~")) or path.exists()
    if files and local and not (path / "config.json").is_file() and not (path / "modules.json").is_file():
        bad_value("encoder", "be a folder with the files of a Hugging Face model, such as config.json", repr(text))
    return text


@documented()
@dataclass(frozen=True)
class TextSettings(Schema):
    """All settings for the training of a text ranker.

    Example:
        >>> TextSettings(encoder="some/model", loss="lambdaloss@10", lr=0).check()
        Traceback (most recent call last):
        rankgrad.settings.schema.SettingsError: lr must be above 0 and finite; got 0
    """

    what = "a text ranker"
    searched = ("lr", "list_size", "batch_size", "weight_decay")

    # fmt: off
    model: str = setting(
        "bi_encoder", "bi_encoder or cross_encoder", choices=("bi_encoder", "cross_encoder"), shown=True
    )
    encoder: str = setting("", "folder or name of the pretrained encoder", writes=str)
    loss: Any = setting("softmax", "loss, see `rankgrad list losses`", reads=_joint_loss, writes=LOSS_TEXT, shown=True)
    epochs: int = setting(5, "maximum number of epochs", least=1, on_resume=True, shown=True)
    batch_size: int = setting(16, "number of lists per batch", least=1, search=[4, 8, 16], shown=True)
    list_size: int | None = setting(
        32, "maximum documents per training list",
        least=2, why="because a loss compares documents", search=[8, 16, 32], shown=True,
    )
    sampling: str = setting(
        "relevant", "documents of a training list: relevant (half of them, if possible), pairs or random",
        choices=SAMPLINGS,
    )
    accumulation: int = setting(1, "number of batches per step of the optimiser", least=1)
    optimiser: str = setting(
        "adamw", "optimiser, as in `rankgrad train`", reads=AS_OPTIMISER, option=("--optimizer",)
    )
    lr: float = setting(
        3e-5, "learning rate of the encoder", search={"low": 5e-6, "high": 1e-4, "log": True}, shown=True
    )
    head_lr: float | None = setting(
        None, "learning rate of the head of a cross-encoder; None means that of the encoder"
    )
    loss_lr: float | None = setting(None, "learning rate of the loss's parameters; None means that of the encoder")
    weight_decay: float = setting(
        0.01, "weight decay, except of biases and normalisation layers",
        least=0, search={"low": 1e-4, "high": 1e-1, "log": True},
    )
    schedule: str = setting("constant", "learning rate schedule: constant, cosine, step or plateau", reads=AS_SCHEDULE)
    warmup: float = setting(0.0, "number of epochs in which the learning rate rises from 0", least=0)
    clip: float | None = setting(1.0, "maximum norm of the gradient; None means no limit")
    temperature: float = setting(0.05, "number that divides the cosine of a bi-encoder")
    max_length: int = setting(
        256, "maximum number of tokens of an input; the encoder may have a lower limit", least=8
    )
    passages: str = setting(
        "first", "long documents: first passage, mean of the passages, or best passage", choices=PASSAGES
    )
    max_document: int | None = setting(None, "maximum number of tokens of a document with passages", least=1)
    chunk: int = setting(64, "number of inputs that the encoder reads at once; more inputs need more memory", least=1)
    checkpointing: bool = setting(False, "True to compute activations twice, which saves memory")
    metric: Any = setting(
        "nDCG@10", "validation metric; selects the epoch", reads=AS_METRIC, writes=METRIC_TEXT, shown=True
    )
    patience: int | None = setting(
        None, "epochs without improvement, after which the training stops; None to train all epochs",
        least=1, on_resume=True,
    )
    seed: int = setting(0, "random seed", least=0, shown=True)
    device: str = setting("auto", "auto, cpu or cuda", reads=check_device, on_resume=True, shown=True)
    precision: str = setting("fp32", "precision of the training: fp32 or bf16", choices=("fp32", "bf16"))
    ema: float = setting(
        0.0, "decay of the moving average of the weights; 0 means no average", least=0, below=1, added=True
    )
    save_steps: int | None = setting(
        None, "number of steps between checkpoints, in addition to one per epoch", least=1, on_resume=True, added=True
    )
    trackers: tuple[str, ...] = setting(
        (), "additional log: tensorboard, mlflow or wandb",
        choices=TRACKERS, on_resume=True, added=True, option=("--tracker",),
    )
    # fmt: on

    def _checks(self, files: bool) -> Iterable[Callable[[], Any]]:
        yield lambda: check_encoder(self.encoder, files=files)
        if self.model == "cross_encoder" and str(self.encoder).startswith(STATIC):
            must = "have layers for a cross_encoder (static: is for a bi_encoder only)"
            yield lambda: bad_value("encoder", must, repr(self.encoder))
