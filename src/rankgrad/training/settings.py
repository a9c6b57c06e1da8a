"""The settings of a neural training run. The names are the same in Python, on the command line and in recipes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rankgrad.data import Preprocessing
from rankgrad.data.preprocessing.missing_values import MISSING, FillMissing
from rankgrad.errors import Problems, bad_value, collected, one_of
from rankgrad.losses.custom import as_loss, loss_text
from rankgrad.metrics.custom import as_metric, metric_text
from rankgrad.rankers.custom import check_ranker, ranker_text
from rankgrad.spec import known_options
from rankgrad.training.optimisers import check_optimiser, check_schedule

Part = Any  # a spec, or a custom object
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
TRACKERS = ("tensorboard", "mlflow", "wandb")


class SettingsError(Problems, ValueError):
    """All errors in the settings of a neural training run, one per line."""


@dataclass(frozen=True)
class Settings:
    """All settings of a neural training run. A spec is text of the form `name[@k][:key=value,...]`.

    `model`, `loss` and `metric` may also be objects: see `rankgrad.rankers.custom.as_ranker`,
    `rankgrad.losses.custom.as_loss` and `rankgrad.metrics.custom.as_metric`. Training uses copies of these objects and
    does not change the originals.

    Example:
        >>> Settings(model="mlp:widths=64-32", loss="lambdaloss@5", lr=0.01).check()
        >>> Settings(model="mpl", epochs=0).check()
        Traceback (most recent call last):
        rankgrad.training.settings.SettingsError: model must be a known name; got 'mpl'; did you mean 'mlp'?
        epochs must be at least 1; got 0
    """

    model: Part = "mlp"  # network, as a spec or an object
    loss: Part = "lambdaloss"  # loss to minimise, as a spec or an object
    preprocess: str = "standardise"  # steps of rankgrad.data.Preprocessing, fitted on the training lists
    missing: str = "error"  # treatment of NaN in the features: error, zero, mean or indicator; see FillMissing
    epochs: int = 100  # maximum number of passes over the training lists
    batch_size: int = 64  # number of lists per batch, in all processes together
    batch_documents: int | None = None  # maximum number of documents per batch, in all processes; replaces batch_size
    list_size: int | None = None  # maximum length of training lists; longer lists are truncated at random in each epoch
    optimiser: str = "adam"  # spec of the optimiser
    lr: float = 1e-3  # learning rate
    weight_decay: float = 0.0  # weight decay of the ranker; it does not apply to parameters of a loss
    loss_lr: float | None = None  # learning rate of the parameters of a loss; None: the value of lr
    schedule: str = "constant"  # spec of the learning rate schedule
    warmup: float = 0.0  # number of epochs in which the learning rate rises from 0
    clip: float | None = None  # maximum norm of the gradient; None: no limit
    ema: float = 0.0  # decay of the moving average of the weights; the model has the averaged weights; 0: no average
    metric: Part = "nDCG@10"  # metric on the validation lists; it chooses the best epoch
    patience: int | None = 20  # number of epochs without a better metric before the run stops; None: no early stop
    seed: int = 0  # random seed
    device: str = "auto"  # auto, cpu, cuda or cuda:N
    precision: str = "fp32"  # fp32, bf16, fp16
    data_on: str = "auto"  # location of the lists during training: device, stream (read from a memory map), or auto
    save_steps: int | None = None  # number of steps between checkpoints; None: only one checkpoint per epoch
    trackers: tuple[str, ...] = ()  # additional logs: tensorboard, mlflow, wandb

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings of a neural training run."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(cls, values: "Mapping[str, Any] | Settings") -> "Settings":
        """Make settings from a mapping. If a name is unknown, the error shows similar names.

        Args:
            values: settings by name; or settings, which are returned.
        """
        if isinstance(values, Settings):
            return values
        known_options("a run", values, cls.names())
        return cls(**with_trackers(values))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values. Instead of an object, the result contains the text `own:module.name`."""
        values = {name: getattr(self, name) for name in self.names()}
        described = {"model": ranker_text(self.model), "loss": loss_text(self.loss), "metric": metric_text(self.metric)}
        if self.missing == "error":
            del values["missing"]  # as in version 0.1, whose runs can be resumed
        return {**values, **described, "trackers": list(self.trackers or ())}

    def preprocessing(self) -> Preprocessing:
        """Return the unfitted preprocessing of numerical features. A step for missing values is first, if needed."""
        steps = Preprocessing.parse(self.preprocess).steps
        return Preprocessing(steps if self.missing == "error" else (FillMissing(self.missing), *steps))

    def check(self) -> None:
        """Raise one error that contains all problems of the settings of a neural training run."""
        if problems := collected(self._checks(), ValueError, TypeError):
            raise SettingsError(*problems)

    def _checks(self) -> Iterable[Callable[[], Any]]:
        yield lambda: check_ranker(self.model)
        yield lambda: as_loss(self.loss)
        yield lambda: Preprocessing.parse(_text("preprocess", self.preprocess))
        yield lambda: one_of("missing", self.missing, MISSING)
        yield lambda: check_optimiser(self.optimiser)
        yield lambda: check_schedule(self.schedule)
        yield lambda: as_metric(self.metric)
        yield lambda: one_of("device", _text("device", self.device).partition(":")[0], ("auto", "cpu", "cuda"))
        yield lambda: one_of("precision", self.precision, PRECISIONS)
        yield lambda: one_of("data_on", self.data_on, ("auto", "device", "stream"))
        yield lambda: check_trackers(self.trackers)
        for name in ("epochs", "batch_size", "batch_documents", "list_size", "patience", "save_steps"):
            yield lambda name=name: self._check_number(name, whole=True, least=1)  # type: ignore[misc]
        yield lambda: self._check_number("seed", whole=True, least=0)
        for name in ("weight_decay", "warmup"):
            yield lambda name=name: self._check_number(name, least=0)  # type: ignore[misc]
        for name in ("lr", "loss_lr", "clip"):
            yield lambda name=name: self._check_number(name)  # type: ignore[misc]
        yield lambda: check_decay(self.ema)
        if self.list_size is not None and self.list_size == 1:
            yield lambda: bad_value("list_size", "be at least 2, because a loss compares documents", 1)

    def _check_number(self, name: str, **limits: Any) -> None:
        check_number(name, getattr(self, name), **limits, optional=name in _OPTIONAL)


def with_trackers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the names of the trackers as a tuple. They may be one name or a list, as in JSON.

    Args:
        values: settings by name.
    """
    trackers = values.get("trackers") or ()
    return {**values, "trackers": tuple([trackers] if isinstance(trackers, str) else trackers)}


def check_trackers(trackers: Iterable[str] | None) -> None:
    """Check the names of the trackers of a run.

    Args:
        trackers: names.
    """
    for tracker in trackers or ():
        one_of("trackers", tracker, TRACKERS)


def check_decay(ema: Any) -> None:
    """Check the setting `ema`, the decay of a moving average.

    Args:
        ema: value of the setting.
    """
    check_number("ema", ema, least=0)
    if ema >= 1:
        bad_value("ema", "be below 1", ema)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        bad_value(name, "be text", repr(value))
    return value


_OPTIONAL = ("batch_documents", "list_size", "patience", "save_steps", "loss_lr", "clip")


def check_number(
    name: str,
    value: Any,
    *,
    whole: bool = False,
    least: float | None = None,
    above: float = 0,
    optional: bool = False,
) -> None:
    """Check a training setting that is a number.

    Args:
        name: name of the setting.
        value: value of the setting.
        whole: True if it must be an integer.
        least: minimum value; with None, `above` is the limit.
        above: if `least` is None, the value must be above this number and finite.
        optional: True if the value may be None.
    """
    if value is None and optional:
        return
    kinds = int if whole else int | float
    must = ("be an integer" if whole else "be a number") + (" or None" if optional else "")
    if isinstance(value, bool) or (not isinstance(value, kinds) and not hasattr(value, "__index__")):
        bad_value(name, must, repr(value))
    if least is not None and not value >= least:
        bad_value(name, f"be at least {least:g}", value)
    if least is None and not (value > above and value < float("inf")):
        bad_value(name, f"be above {above:g} and finite", value)
