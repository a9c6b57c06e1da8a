"""`rankgrad train`: trains a ranker on labelled lists and saves it."""

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.argument_checks import is_first
from rankgrad.cli.missing_option import FILLS, TrainingMissing, training_missing
from rankgrad.cli.option_groups import AsJson, Fold
from rankgrad.cli.setting_options import with_setting_options
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.cli.training_run import TrainingRun, kept_settings, print_saved, tested
from rankgrad.errors import bad_value, first_line
from rankgrad.settings.neural import Settings
from rankgrad.settings.trees import TreeSpec

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.data import Dataset
    from rankgrad.models.protocol import RankerKind, TrainedModel

HOLDOUT = 0.2


@partial(with_table_options, shown=("label", "query"))
@with_setting_options(
    Settings,
    epochs=f"{Settings.epochs}; trees: {TreeSpec.trees}",
    lr=f"{Settings.lr}; trees: the framework's",
    patience=f"{Settings.patience}; trees: {TreeSpec.patience}",
)
def train(
    table: TableOptions,
    settings: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder for model and checkpoints.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="Data set, folder, LETOR file or table.")] = None,
    fold: Fold = None,
    data_root: Annotated[
        str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).", hidden=True)
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of lists to hold out (default: 0.2).", show_default=False)
    ] = HOLDOUT,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: AsJson = False,
    cache: Annotated[str | None, typer.Option(help="Folder for memory-mapped copies of the data.", hidden=True)] = None,
    missing: TrainingMissing = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Read LETOR text with very many features as a sparse matrix.", hidden=True)
    ] = False,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Other setting; repeatable.", metavar="name=value"),
    ] = None,
    init_model: Annotated[Path | None, typer.Option(help="Model to start from.", hidden=True)] = None,
) -> None:
    """Train a ranker, save the best epoch, and evaluate the model on test lists.

    Example: `rankgrad train --data MQ2008 --fold 1 --loss lambdaloss@5 --out runs/a`
    """
    from rankgrad.cli.argument_checks import pair, parse_value
    from rankgrad.cli.data_source import KEPT, DataSource
    from rankgrad.cli.json_output import messages

    given = {**settings, **dict(pair("set", text, parse_value) for text in others or ())}
    given |= {"missing": missing} if missing in FILLS else {}
    kind, settings, added = _settings(given, out if resume else None)
    source = DataSource.kept(out) if resume else None
    if data is not None:
        # A resumed run keeps the lists that it held out. If the seed is not a number, a later check raises an error.
        seed_of_run = settings.get("seed", 0) if isinstance(settings.get("seed", 0), int) else 0
        chosen_by = seed_of_run if source is None else source.seed
        missing = training_missing(missing, kind, settings, data)
        data = kind.training_data(data, None if source is None else source.data)
        source = DataSource(data, fold, data_root, cache, missing, holdout, chosen_by, table.columns(), table.regroup)
        source = replace(source, sparse=sparse)
    elif source is not None:
        source = replace(source, cache=cache)

    def named() -> None:
        if source is None:
            why = f", because {out} does not contain {KEPT}" if resume else ""
            bad_value("data", f"be given{why}", None)
        source.check(out if data is None else None)

    run = ListRun(kind, settings, source, out, resume, overwrite, as_json, init_model)
    run.check(named)
    if added:
        messages(as_json).print(added, markup=False)
    run.start()


def _settings(given: dict[str, Any], resumed: Path | None) -> tuple["RankerKind", dict[str, Any], str]:
    """Return the kind of ranker of a training, the settings and a note. Given settings replace recorded settings."""
    from rankgrad.models.registry import kind_or_default

    kept, path = kept_settings(resumed)
    model = given.get("model", kept.get("model"))
    kind = kind_or_default(model)
    if not kept:
        return kind, *kind.read(given)
    try:
        kind.check(kept)
    except (ValueError, TypeError) as error:
        bad_value(str(path), "contain the settings of a run", f"the error {first_line(error)}")
    return kind, {**kept, **kind.read({**({} if model is None else {"model": model}), **given})[0]}, ""


class ListRun(TrainingRun):
    """One training of `rankgrad train`."""

    def how_to_resume(self) -> str:
        """Return the command that resumes the training; see `TrainingRun.how_to_resume`."""
        if not self.kind.resumes(self.out):
            return f"No {self.kind.unit} is complete: there is nothing to resume."
        cache = "" if self.lists.cache is None else f"--cache {shlex.quote(self.lists.cache)} "
        length = self.record["settings"].get(self.kind.length or "")
        limit = "" if length is None else f"--epochs {length} "
        start = "" if self.init_model is None else f"--init-model {shlex.quote(str(self.init_model))} "
        return f"To resume: rankgrad train --resume {limit}{cache}{start}--out {shlex.quote(str(self.out))}"

    def run(self) -> None:
        """Read the lists, fit the model, and print the result; see `TrainingRun.run`."""
        from rankgrad.cli.data_source import columns_text, telling
        from rankgrad.cli.json_output import messages, print_json
        from rankgrad.data.inspection_checks import warn_shared

        console, source = messages(self.as_json), self.lists
        with telling(f"reading {source.data}"):
            whole = source.read()
            if "test" in whole:
                warn_shared(whole["train"], whole["test"])
            parts = source.hold_out(whole)
        if (columns := columns_text(whole["train"])) is not None:
            console.print(columns, markup=False)
        note = f", held out from train, because the data has no validation part (--holdout {source.holdout:g})"
        for name, part in parts.items():
            origin = "" if name in whole else note
            console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents{origin}", markup=False)
        if "validation" not in parts:
            console.print("no validation lists: training does not stop early")
        features = parts["train"].matrix.shape[1]
        console.print(f"training {self.kind.describe(self.settings)}, {features} features", markup=False)
        model = self.fit(parts["train"], parts.get("validation"))
        if is_first():
            sizes = {name: len(part) for name, part in parts.items()}
            result = self._report(console, model, parts.get("test"))
            if self.as_json:
                about = {"model": self.out, "kind": self.kind.name, "lists": sizes, "features": features}
                print_json({**about, **result, **self.record})

    def _report(self, console: "Console", model: "TrainedModel", test: "Dataset | None") -> dict[str, Any]:
        """Evaluate the model on the test lists, and print and return the result."""
        from rankgrad.models.folder import write_metrics

        found: dict[str, Any] = {"unit": model.unit, **print_history(console, model)}
        if test is not None:
            found["test"] = tested(console, model, test, "\non {} test lists:")
            write_metrics(self.out, model.metrics)
        print_saved(console, self.out)
        return found


def print_history(console: "Console", model: "TrainedModel") -> dict[str, Any]:
    """Print the best epoch or tree of a training and the learned parameters of the loss; return them for `--json`."""
    total, history = len(model.history), model.history
    seconds = sum(row.get("seconds", 0.0) + row.get("judge_seconds", 0.0) for row in history)
    found: dict[str, Any] = {"kept": model.kept, "trained": total, "seconds": round(seconds, 4)}
    found |= {"validation": model.metrics.get("validation"), "loss": model.metrics.get("loss"), "test": None}
    best = "".join(f", {name} {value:.4f} on validation" for name, value in model.metrics.get("validation", {}).items())
    if total:
        number = f"best after {model.kept} of {total}" if model.kept else total  # a custom kind may not know the best
        console.print(f"{number} {model.unit}s{best}; {seconds:.1f} s", markup=False)
    if learned := model.metrics.get("loss"):
        values = ", ".join(f"{name} {value:.4g}" for name, value in learned.items())
        console.print(f"learned parameters of the loss: {values}", markup=False)
    return found
