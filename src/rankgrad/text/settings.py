"""Settings for the training of a text ranker. Their names are the same in Python, recipes and commands."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rankgrad.errors import bad_value, collected, one_of
from rankgrad.losses.custom import as_loss, loss_text
from rankgrad.metrics.custom import as_metric, metric_text
from rankgrad.spec import known_options
from rankgrad.text.encoder_files import STATIC, check_encoder
from rankgrad.text.list_sampling import SAMPLINGS
from rankgrad.text.token_inputs import PASSAGES
from rankgrad.training.optimisers import check_optimiser, check_schedule
from rankgrad.training.settings import (
    PRECISIONS,
    SettingsError,
    check_decay,
    check_number,
    check_trackers,
    with_trackers,
)

MODELS = ("bi_encoder", "cross_encoder")


@dataclass(frozen=True)
class TextSettings:
    """All settings for the training of a text ranker.

    Example:
        >>> TextSettings(encoder="some/model", loss="lambdaloss@10", lr=0).check()
        Traceback (most recent call last):
        rankgrad.training.settings.SettingsError: lr must be above 0 and finite; got 0
    """

    model: str = "bi_encoder"  # bi_encoder or cross_encoder
    encoder: str = ""  # folder or name of the pretrained encoder
    loss: Any = "softmax"  # loss to minimise, as a spec or an object
    epochs: int = 5  # maximum number of passes over the training lists
    batch_size: int = 16  # number of lists per batch
    list_size: int | None = 32  # maximum number of documents per training list, sampled in each epoch; None: all
    sampling: str = "relevant"  # relevant: half of a list is relevant, if possible; pairs: always half; random
    accumulation: int = 1  # number of batches per step of the optimiser
    optimiser: str = "adamw"  # spec of the optimiser
    lr: float = 3e-5  # learning rate of the encoder
    head_lr: float | None = None  # learning rate of the head of a cross-encoder; None: the value of lr
    loss_lr: float | None = None  # learning rate of the parameters of a loss; None: the value of lr
    weight_decay: float = 0.01  # weight decay of all parameters except biases and normalisation layers
    schedule: str = "constant"  # spec of the learning rate schedule
    warmup: float = 0.0  # number of epochs in which the learning rate rises from 0
    clip: float | None = 1.0  # maximum norm of the gradient; None: no limit
    temperature: float = 0.05  # number that divides the cosine of a bi-encoder
    max_length: int = 256  # maximum number of tokens per input; the encoder may have a lower limit
    passages: str = "first"  # use of long documents: first passage, mean of the passages, or best passage
    max_document: int | None = None  # maximum number of tokens of a document with passages; None: no limit
    chunk: int = 64  # number of inputs that the encoder reads at once; a smaller number needs less memory
    checkpointing: bool = False  # True: compute activations again in the backward pass, to save memory
    metric: Any = "nDCG@10"  # metric on the validation lists, used to choose the best epoch
    patience: int | None = None  # number of epochs without a better metric before the run stops; None: no early stop
    seed: int = 0  # random seed
    device: str = "auto"  # auto, cpu, cuda or cuda:N
    precision: str = "fp32"  # fp32 or bf16
    ema: float = 0.0  # decay of the moving average of the weights; the model has the averaged weights; 0: no average
    save_steps: int | None = None  # number of steps between checkpoints; None: only one checkpoint per epoch
    trackers: tuple[str, ...] = ()  # additional logs: tensorboard, mlflow, wandb

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings of a text ranker."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(cls, values: "Mapping[str, Any] | TextSettings") -> "TextSettings":
        """Make settings of a text ranker from a mapping. For an unknown name, the error shows similar names.

        Args:
            values: settings by name; or settings, which are returned.
        """
        if isinstance(values, TextSettings):
            return values
        known_options("a text ranker", values, cls.names())
        return cls(**with_trackers(values))

    def to_json(self) -> dict[str, Any]:
        """Return the settings of a text ranker as JSON values; an object is described as `own:module.name`."""
        values = {name: getattr(self, name) for name in self.names()}
        described = {"encoder": str(self.encoder), "loss": loss_text(self.loss), "metric": metric_text(self.metric)}
        added = {name: values.pop(name) for name in ("ema", "save_steps", "trackers")}  # not in version 0.2
        return {**values, **described, **{name: value for name, value in added.items() if value}}

    def check(self, *, files: bool = True) -> None:
        """Check the settings of a text ranker, and raise one error that contains all problems.

        Args:
            files: False to accept an encoder folder that does not exist here, such as a folder of another machine.
        """
        if problems := collected(self._checks(files), ValueError, TypeError):
            raise SettingsError(*problems)

    def _checks(self, files: bool) -> Iterable[Callable[[], Any]]:
        yield lambda: one_of("model", self.model, MODELS)
        yield lambda: check_encoder(self.encoder, files=files)
        if self.model == "cross_encoder" and str(self.encoder).startswith(STATIC):
            must = "have layers for a cross_encoder (static: is for a bi_encoder only)"
            yield lambda: bad_value("encoder", must, repr(self.encoder))
        yield lambda: as_loss(self.loss).only_joint("a text ranker")
        yield lambda: check_optimiser(self.optimiser)
        yield lambda: check_schedule(self.schedule)
        yield lambda: as_metric(self.metric)
        yield lambda: one_of("sampling", self.sampling, SAMPLINGS)
        yield lambda: one_of("passages", self.passages, PASSAGES)
        yield lambda: one_of("device", str(self.device).partition(":")[0], ("auto", "cpu", "cuda"))
        yield lambda: one_of("precision", self.precision, [name for name in PRECISIONS if name != "fp16"])
        yield lambda: check_number("max_length", self.max_length, whole=True, least=8)
        whole = ("epochs", "batch_size", "list_size", "accumulation", "max_document", "chunk", "patience", "save_steps")
        optional = ("list_size", "max_document", "patience", "save_steps", "head_lr", "loss_lr", "clip")
        for name in whole:
            yield lambda name=name: check_number(  # type: ignore[misc]
                name, getattr(self, name), whole=True, least=1, optional=name in optional
            )
        yield lambda: check_trackers(self.trackers)
        yield lambda: check_decay(self.ema)
        yield lambda: check_number("seed", self.seed, whole=True, least=0)
        for name in ("weight_decay", "warmup"):
            yield lambda name=name: check_number(name, getattr(self, name), least=0)  # type: ignore[misc]
        for name in ("lr", "head_lr", "loss_lr", "clip", "temperature"):
            yield lambda name=name: check_number(name, getattr(self, name), optional=name in optional)  # type: ignore[misc]
        if not isinstance(self.checkpointing, bool):
            yield lambda: bad_value("checkpointing", "be True or False", repr(self.checkpointing))
        if self.list_size == 1:
            yield lambda: bad_value("list_size", "be at least 2, because a loss compares documents", 1)
