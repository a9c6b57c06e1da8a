"""The settings of a neural training. The names are the same in Python, on the command line and in recipes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankgrad.settings.schema import Schema, check_device, documented, setting
from rankgrad.settings.schema import SettingsError as SettingsError  # old paths of modules lead here

if TYPE_CHECKING:
    from rankgrad.data import Preprocessing

Part = Any  # a spec, or a custom object
MISSING = ("error", "zero", "mean", "indicator")  # values of the setting `missing`
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
TRACKERS = ("tensorboard", "mlflow", "wandb")
AS_LOSS, LOSS_TEXT = "rankgrad.losses.custom:as_loss", "rankgrad.losses.custom:loss_text"
AS_METRIC, METRIC_TEXT = "rankgrad.metrics.custom:as_metric", "rankgrad.metrics.custom:metric_text"
AS_OPTIMISER = "rankgrad.training.optimisers:check_optimiser"
AS_SCHEDULE = "rankgrad.training.optimisers:check_schedule"


@documented()
@dataclass(frozen=True)
class Settings(Schema):
    """All settings of a neural training run. A spec is text of the form `name[@k][:key=value,...]`.

    `model`, `loss` and `metric` may also be objects: see `rankgrad.rankers.custom.as_ranker`,
    `rankgrad.losses.custom.as_loss` and `rankgrad.metrics.custom.as_metric`. Training uses copies of these objects and
    does not change the originals.

    Example:
        >>> Settings(model="mlp:widths=64-32", loss="lambdaloss@5", lr=0.01).check()
        >>> Settings(model="mpl", epochs=0).check()
        Traceback (most recent call last):
        rankgrad.settings.schema.SettingsError: model must be a known name; got 'mpl'; did you mean 'mlp'?
        epochs must be at least 1; got 0
    """

    what = "a run"
    searched = ("lr", "weight_decay", "batch_size", "preprocess")

    # fmt: off
    model: Part = setting(
        "mlp", "ranker, see `rankgrad list models`", shown=True,
        reads="rankgrad.rankers.custom:check_ranker", writes="rankgrad.rankers.custom:ranker_text",
    )
    loss: Part = setting("lambdaloss", "loss, see `rankgrad list losses`", reads=AS_LOSS, writes=LOSS_TEXT, shown=True)
    preprocess: str = setting(
        "standardise", "steps, such as log1p or none", shown=True,
        reads="rankgrad.data.preprocessing:Preprocessing.parse",
        search=["standardise", "log1p,standardise", "quantile"],
    )
    missing: str = setting(
        "error", "treatment of NaN: error, zero, mean, or indicator (the mean, and a column that marks NaN)",
        choices=MISSING, added=True,
    )
    epochs: int = setting(100, "maximum number of epochs", least=1, on_resume=True, shown=True)
    batch_size: int = setting(64, "number of lists per batch", least=1, search=[16, 32, 64, 128], shown=True)
    batch_documents: int | None = setting(None, "number of documents per batch, instead of lists", least=1)
    list_size: int | None = setting(
        None, "maximum length of training lists; each epoch samples documents of longer lists",
        least=2, why="because a loss compares documents",
    )
    optimiser: str = setting(
        "adam", "name of the optimiser: adagrad, adam, adamw, nadam, radam, rmsprop or sgd",
        reads=AS_OPTIMISER, option=("--optimizer",),
    )
    lr: float = setting(1e-3, "learning rate", search={"low": 1e-4, "high": 1e-2, "log": True}, shown=True)
    weight_decay: float = setting(
        0.0, "weight decay of the ranker", least=0, search={"low": 1e-6, "high": 1e-2, "log": True}
    )
    loss_lr: float | None = setting(None, "learning rate of the loss's parameters; None means that of the ranker")
    schedule: str = setting(
        "constant", "learning rate schedule: constant, cosine, step:every=50,factor=0.1 or plateau", reads=AS_SCHEDULE
    )
    warmup: float = setting(0.0, "number of epochs in which the learning rate rises from 0", least=0)
    clip: float | None = setting(None, "maximum norm of the gradient; None means no limit")
    ema: float = setting(0.0, "decay of the moving average of the weights; 0 means no average", least=0, below=1)
    metric: Part = setting(
        "nDCG@10", "validation metric; selects the epoch", reads=AS_METRIC, writes=METRIC_TEXT, shown=True
    )
    patience: int | None = setting(
        20, "epochs without improvement, after which the training stops; None to train all epochs",
        least=1, on_resume=True, shown=True,
    )
    seed: int = setting(0, "random seed", least=0, shown=True)
    device: str = setting("auto", "auto, cpu or cuda", reads=check_device, on_resume=True)
    precision: str = setting("fp32", "precision of the training: fp32, bf16 or fp16", choices=tuple(PRECISIONS))
    data_on: str = setting(
        "auto", "location of the lists during training: auto, device or stream (read from a memory map)",
        choices=("auto", "device", "stream"), on_resume=True,
    )
    save_steps: int | None = setting(
        None, "number of steps between checkpoints, in addition to one per epoch", least=1, on_resume=True
    )
    trackers: tuple[str, ...] = setting(
        (), "additional log: tensorboard, mlflow or wandb", choices=TRACKERS, on_resume=True, option=("--tracker",)
    )
    # fmt: on

    def preprocessing(self, parsed: "Preprocessing | None" = None) -> "Preprocessing":
        """Return the unfitted preprocessing of numerical features. A step for missing values is first, if needed.

        Args:
            parsed: what the setting `preprocess` means; None to parse it.
        """
        from rankgrad.data.preprocessing.pipeline import FillMissing, Preprocessing

        steps = (parsed or Preprocessing.parse(self.preprocess)).steps
        return Preprocessing(steps if self.missing == "error" else (FillMissing(self.missing), *steps))
