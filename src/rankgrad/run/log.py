"""Log a run. Show the progress on standard error, write one JSON line per epoch to a file, and use trackers."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rankgrad.atomic_files import naming, open_to_append

LOG = "log.jsonl"


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
    """A log in TensorBoard, MLflow or Weights & Biases. It receives the numbers of each epoch, with their names."""

    def __init__(self, tracker: str, folder: Path, settings: dict[str, Any]) -> None:
        self.tracker, self.name = tracker, folder.name
        try:
            self._log, self._close = getattr(self, f"_{tracker}")(folder, settings)
        except ModuleNotFoundError as error:
            raise ValueError(f"the tracker {tracker!r} must be installed; got the error: {error}") from error

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

        run = mlflow.start_run(run_name=self.name)
        mlflow.log_params(settings)
        return lambda row, step: mlflow.log_metrics(row, step=step, run_id=run.info.run_id), mlflow.end_run

    def _wandb(self, folder: Path, settings: dict[str, Any]) -> tuple[Any, Any]:
        import wandb

        run = wandb.init(project="rankgrad", name=self.name, dir=folder, config=settings)
        return lambda row, step: run.log(row, step=step), run.finish


class ProgressBar:
    """The progress of a run on standard error: a bar on a terminal, otherwise one line per epoch or tree.

    With `show=None` (the default), the bar is shown on a terminal; if the output is not a terminal, nothing is printed.
    With `show=True`, lines are printed if the output is not a terminal. With `show=False`, nothing is shown. The bar
    contains the number of epochs or trees, the loss and the metric.
    """

    def __init__(self, epochs: int, metric: str, show: bool | None = None, unit: str = "epoch") -> None:
        self.epochs, self.metric, self.unit = epochs, metric, unit
        self._bar: Any = None
        self._lines = bool(show) and not _on_terminal()
        if _on_terminal() and show is not False:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("training", total=float(epochs))
            self._bar.start()

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Print the epoch, the loss, the metric and the seconds of a row, if the progress is shown as lines."""
        if self._lines:
            hidden = (self.unit, "lr", "seconds", "judge_seconds")
            numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
            values = "".join(f"  {name} {value:.4f}" for name, value in numbers.items() if name not in hidden)
            seconds = row.get("seconds", 0.0) + row.get("judge_seconds", 0.0)
            print(f"{self.unit} {row[self.unit]}/{self.epochs}{values}  {seconds:.1f} s", file=sys.stderr, flush=True)

    def at(self, time: float, loss: float | None, best: float | None, learned: Mapping[str, float]) -> None:
        """Update the bar: number of epochs or trees, mean loss of this epoch, best metric, parameters of the loss."""
        if self._bar is not None:
            best_text = "" if best is None else f"  best {self.metric} {best:.4f}"
            parameters = "".join(f"  {name} {value:.3f}" for name, value in learned.items())
            mean = "" if loss is None else f"  loss {loss:.4f}"
            text = f"{self.unit} {min(int(time) + 1, self.epochs)}/{self.epochs}{mean}{parameters}{best_text}"
            self._bar.update(self._task, completed=time, description=text)

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()


def _on_terminal() -> bool:
    """Return True if standard output and standard error are terminals. A log file must not contain a bar."""
    return sys.stderr.isatty() and sys.stdout.isatty()
