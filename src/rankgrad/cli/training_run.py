"""Share what commands that train need: checks of the folder, settings of a resumed run, Ctrl-C, and the test lists."""

import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rankgrad.cli.argument_checks import is_first
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.data import Dataset
    from rankgrad.models.protocol import RankerKind, TrainedModel

RUN = "run.json"  # file with the settings of a run, in the folder of the run


def kept_settings(folder: Path | None) -> tuple[dict[str, Any], Path | None]:
    """Return the settings of a resumed run, and their file: `run.json`, or `config.json` for a run of rankgrad 0.1."""
    from rankgrad.atomic_files import read_json
    from rankgrad.models.folder import CONFIG, read_config

    if folder is None:
        return {}, None
    path = folder / RUN
    if path.is_file():
        kept = read_json(path).get("settings")
    else:
        path = folder / CONFIG
        kept = read_config(folder).get("settings", {}) if path.is_file() else {}
        kept = kept if "model" in kept else {}
    if not isinstance(kept, dict):
        bad_value(str(path), "contain a mapping from setting to value", repr(kept)[:80])
    return kept, path


@contextmanager
def search_run(out: Path, overwrite: bool) -> Iterator[None]:
    """Lock the folder of a search inside of a `with` statement. After Ctrl-C, say how the search resumes.

    Args:
        out: folder of the search.
        overwrite: True if the command replaces an earlier search.
    """
    from rankgrad.cli.argument_checks import only_run
    from rankgrad.cli.shared_options import one_line

    try:
        with one_line(RuntimeError), only_run(out):
            yield
    except KeyboardInterrupt:
        again = " without --overwrite" if overwrite else ""
        typer.echo(f"\nStopped. To resume, run the same command again{again}.", err=True)
        raise typer.Exit(130) from None


def tested(console: "Console", model: "TrainedModel", test: "Dataset | None", said: str) -> dict[str, Any] | None:
    """Evaluate a model on test lists, print the result, and return it as in JSON; None without test lists.

    Args:
        console: console of the command.
        model: trained model, whose `metrics` receive the result.
        test: test lists.
        said: line before the result, with `{}` in the place of the number of lists.
    """
    from rankgrad.cli.terminal_tables import default_metrics, print_metrics

    if test is None:
        return None
    result = model.evaluate(test, default_metrics(test))
    model.metrics = {**model.metrics, "test": result.means}
    console.print(said.format(f"{len(test):,}"))
    print_metrics(result.rows(), result.notes(), console=console)
    found: dict[str, Any] = json.loads(result.to_json())
    return found


def print_saved(console: "Console", out: Path, more: str = "") -> None:
    """Print the folder of a saved model, and a command that uses it.

    Args:
        console: console of the command.
        out: folder of the model.
        more: text after the folder.
    """
    console.print(f"model: {out}{more}", markup=False)
    console.print(f"next:  rankgrad predict {shlex.quote(str(out))} FILE --out scores.txt", markup=False)


@dataclass
class TrainingRun:
    """One training of a command. A subclass says what it reads and prints, in `run` and `how_to_resume`."""

    kind: "RankerKind"
    settings: dict[str, Any]
    lists: Any  # source of the lists; its method `keep` writes what a resumed run needs
    out: Path
    resume: bool
    overwrite: bool
    as_json: bool
    init_model: Path | None = None
    checked: Any = None  # the settings as `RankerKind.fit` takes them

    def run(self) -> None:
        """Read the lists, fit the model, and print the result."""
        raise NotImplementedError

    def how_to_resume(self) -> str:
        """Return a sentence for the user who has stopped the training."""
        raise NotImplementedError

    @property
    def record(self) -> dict[str, Any]:
        """All settings of the run, as `run.json` contains them."""
        return {"settings": {**self.kind.defaults, **self.settings}}

    def check(self, *more: Callable[[], object]) -> None:
        """Raise one error with all problems of the options, before any data is read.

        Args:
            more: checks of the command.
        """
        from rankgrad.cli.argument_checks import check_device, together
        from rankgrad.models.registry import saved_kind

        def settings() -> None:
            self.checked = self.kind.checked(self.settings)

        together(
            settings,
            self.kind.check_installed,
            lambda: check_device(str(self.settings.get("device", "auto"))),
            *more,
            self.check_folder,
            lambda: None if self.init_model is None else saved_kind(self.init_model),
        )

    def check_folder(self) -> None:
        """Check that the training can start or resume in the folder `--out`."""
        from rankgrad.cli.overwrite import check_overwrite
        from rankgrad.models.folder import CONFIG
        from rankgrad.models.registry import saved_kind

        kind, out = self.kind, self.out
        if not is_first():  # the first process may already write to the folder
            return
        if out.exists() and not out.is_dir():
            bad_value("out", "be a folder", f"the file {out}")
        if self.overwrite:
            if self.resume:
                bad_value("overwrite", "not be given with --resume", "both")
            if int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))) > 1:
                must = "not be given in a run with several processes (remove the folder first)"
                bad_value("overwrite", must, "--overwrite")
            check_overwrite(out)
            return
        if (out / CONFIG).exists():
            saved = saved_kind(out)  # raises an error if another program wrote the file
            if (saved.saved_as or saved.name) != (kind.saved_as or kind.name):
                bad_value("out", "be a new folder", f"{out}, which contains a model of the kind {saved.name}")
        if not self.resume and kind.has_run(out):
            bad_value("out", "be a new folder (or add --resume or --overwrite)", f"{out}, which contains a run")

    def start(self) -> None:
        """Run in the locked folder. Ctrl-C ends the command with a sentence about how to resume."""
        from rankgrad.cli.argument_checks import only_run
        from rankgrad.cli.shared_options import one_line
        from rankgrad.run import NotFinite

        try:
            with one_line(NotFinite), only_run(self.out):
                self.check_folder()  # again, because another run may have finished in the meantime
                self.run()
        except KeyboardInterrupt:
            if is_first():
                typer.echo(f"\nStopped. {self.how_to_resume()}", err=True)
            raise typer.Exit(130) from None

    def fit(
        self, train: "Dataset", validation: "Dataset | None", taught: Callable[["Dataset"], "Dataset"] | None = None
    ) -> "TrainedModel":
        """Write what a resumed run needs, then train or resume, and return the model.

        Args:
            train: training lists.
            validation: validation lists.
            taught: function that gives the training lists labels of a teacher, in the folder of the run.
        """
        from rankgrad.cli.data_source import telling
        from rankgrad.cli.overwrite import remove_run
        from rankgrad.cli.shared_options import detail, options
        from rankgrad.models.registry import load
        from rankgrad.run.log import row_text

        kind, out = self.kind, self.out
        for name, value in self.record["settings"].items():
            detail(f"  {name}: {value}")
        start = None if self.init_model is None else load(self.init_model)
        if self.overwrite:
            remove_run(out)
        resumed = self.resume and kind.resumes(out)
        if not resumed:
            self._keep()
        fitting: dict[str, Any] = {"out": out, "resume": self.resume, "init_model": start}
        fitting["progress"] = is_first() and not options.quiet
        if options.verbose and not options.quiet:  # one line per epoch or tree, also if the progress has fewer lines
            total = self.record["settings"].get(kind.length or "")
            fitting |= {"progress": None, "callbacks": [lambda row: detail(row_text(row, kind.unit, total))]}
        with telling():
            model = kind.fit(self.checked, taught(train) if taught else train, validation, **fitting)
        if resumed:  # `fit` has checked that the run has the same data; it may have more epochs
            self._keep()
        if is_first() and not kind.has_run(out):
            model.save(out)
        return model

    def _keep(self) -> None:
        from rankgrad.atomic_files import write_json

        if is_first():
            self.lists.keep(self.out)
            write_json(self.out / RUN, self.record, seal=True)
