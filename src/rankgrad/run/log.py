"""Log a run. Show the progress on standard error, write one JSON line per epoch to a file, and use trackers."""

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rankgrad.atomic_files import naming, open_to_append
from rankgrad.errors import bad_value

LOG = "log.jsonl"
_SECONDS = 10.0  # maximum time between two lines of progress, if a row takes less


class Tracker(Protocol):
    """Interface of a log, which receives the numbers of each epoch."""

    def epoch(self, row: dict[str, Any]) -> None:
        """Log one row of the history of a run."""

    def close(self) -> None:
        """End the log of a run."""


class JsonLines:
    """The file `log.jsonl`, which contains one JSON object per epoch."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG

    def restart(self, history: list[dict[str, Any]]) -> None:
        """Write a new log file that contains the history of a checkpoint."""
        open_to_append(self.path, 0).close()
        for row in history:
            self.epoch(row)

    def epoch(self, row: dict[str, Any]) -> None:
        """Append a row of the history to the log file as one line."""
        with naming(self.path), open_to_append(self.path) as file:
            file.write((json.dumps(row) + "\n").encode())

    @property
    def length(self) -> int:
        """Length of the log file in bytes."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def close(self) -> None:
        """Do nothing, because the log file is not open."""


class MetricTracker:
    """A log in TensorBoard, MLflow or Weights & Biases. It receives the numbers of each epoch, with their names.

    In MLflow, `nDCG@10` has the name `nDCG_at_10` (see `mlflow_name`). A run inside a run of the caller is its child.
    """

    def __init__(self, tracker: str, folder: Path, settings: dict[str, Any]) -> None:
        self.tracker, self.name = tracker, folder.name
        try:
            self._log, self._close = getattr(self, f"_{tracker}")(folder, settings)
        except Exception as error:
            must = "be installed" if isinstance(error, ModuleNotFoundError) else "start"
            bad_value(f"the tracker {tracker!r}", must, f"the error: {error}")

    def epoch(self, row: dict[str, Any]) -> None:
        """Log the numbers of the row with their names."""
        self._log({name: value for name, value in row.items() if isinstance(value, int | float)}, row["epoch"])

    def close(self) -> None:
        """Write the pending values of the tracker, and end the log."""
        self._close()

    def _tensorboard(self, folder: Path, settings: dict[str, Any]) -> tuple[Any, Any]:
        from lightning_fabric.loggers import TensorBoardLogger

        logger = TensorBoardLogger(root_dir=folder, name="tensorboard", version="")
        logger.log_hyperparams(settings)
        return logger.log_metrics, lambda: logger.finalize("success")

    def _mlflow(self, folder: Path, settings: dict[str, Any]) -> tuple[Any, Any]:
        import mlflow

        run = mlflow.start_run(run_name=self.name, nested=True)
        mlflow.log_params(settings)

        def log(row: dict[str, float], step: int) -> None:
            named = {mlflow_name(name): value for name, value in row.items()}
            mlflow.log_metrics(named, step=step, run_id=run.info.run_id)

        return log, mlflow.end_run

    def _wandb(self, folder: Path, settings: dict[str, Any]) -> tuple[Any, Any]:
        import wandb

        run = wandb.init(project="rankgrad", name=self.name, dir=folder, config=settings)
        return lambda row, step: run.log(row, step=step), run.finish


def mlflow_name(name: str) -> str:
    """Return a name that MLflow accepts: `_at_` replaces `@`, and `_` replaces other special characters.

    Example:
        >>> mlflow_name("nDCG@10"), mlflow_name("nDCG(gain='linear')@5")
        ('nDCG_at_10', 'nDCG_gain_linear_at_5')
    """
    return re.sub(r"(?:[^\w.-]|_)+", "_", name.replace("@", "_at_")).strip("_")


class ProgressBar:
    """The progress of a run on standard error: a bar on a terminal, otherwise lines.

    With `show=None` (the default), the bar is shown on a terminal; if the output is not a terminal, nothing is printed.
    With `show=True`, lines are printed if the output is not a terminal: one per epoch, or one per tenth of the trees
    and at least every ten seconds. With `show=False`, nothing is shown. The bar contains the number of epochs or trees,
    the loss and the metric.
    """

    def __init__(self, epochs: int, metric: str, show: bool | None = None, unit: str = "epoch") -> None:
        self.epochs, self.metric, self.unit = epochs, metric, unit
        self._bar: Any = None
        self._lines = bool(show) and not _on_terminal()
        self._every, self._printed = max(1, epochs // 10) if unit == "tree" else 1, time.monotonic()
        if _on_terminal() and show is not False:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("training", total=float(epochs))
            self._bar.start()

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Print a row, if the progress is shown as lines and a line is due."""
        due = row[self.unit] % self._every == 0 or time.monotonic() - self._printed > _SECONDS
        if self._lines and due:
            print(row_text(row, self.unit, self.epochs), file=sys.stderr, flush=True)
            self._printed = time.monotonic()

    def at(self, now: float, loss: float | None, best: float | None, learned: Mapping[str, float]) -> None:
        """Update the bar: number of epochs or trees, mean loss of this epoch, best metric, parameters of the loss."""
        if self._bar is not None:
            best_text = "" if best is None else f"  best {self.metric} {best:.4f}"
            parameters = "".join(f"  {name} {value:.3f}" for name, value in learned.items())
            mean = "" if loss is None else f"  loss {loss:.4f}"
            text = f"{self.unit} {min(int(now) + 1, self.epochs)}/{self.epochs}{mean}{parameters}{best_text}"
            self._bar.update(self._task, completed=now, description=text)

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()


def row_text(row: Mapping[str, Any], unit: str, total: Any) -> str:
    """Return a row of the log as one line: the number of the epoch or tree, the loss, the metric and the seconds.

    Example:
        >>> row_text({"epoch": 2, "loss": 0.5, "nDCG@10": 0.25, "lr": 0.1, "seconds": 1.5}, "epoch", 10)
        'epoch 2/10  loss 0.5000  nDCG@10 0.2500  1.5 s'
    """
    hidden = (unit, "lr", "seconds", "judge_seconds")
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float) and name not in hidden}
    values = "".join(f"  {name} {value:.4f}" for name, value in numbers.items())
    return f"{unit} {row[unit]}/{total}{values}  {row.get('seconds', 0.0) + row.get('judge_seconds', 0.0):.1f} s"


def _on_terminal() -> bool:
    """Return True if standard output and standard error are terminals. A log file must not contain a bar."""
    return sys.stderr.isatty() and sys.stdout.isatty()
