"""`rankgrad train`: trains a ranker on labelled lists and saves it."""

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.argument_checks import is_first
from rankgrad.cli.missing_option import FILLS, TrainingMissing, training_missing
from rankgrad.cli.setting_options import with_setting_options
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.errors import bad_value, first_line
from rankgrad.settings.neural import Settings
from rankgrad.settings.trees import TreeSpec

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import RankerKind, TrainedModel

HOLDOUT = 0.2
RUN = "run.json"  # file with the settings of a run, in the folder of the run


@with_table_options
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
    fold: Annotated[int | None, typer.Option(help="Fold number, for data sets with folds.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    holdout: Annotated[
        float,
        typer.Option(
            help="Share of lists to hold out if there is no validation part (default: 0.2).", show_default=False
        ),
    ] = HOLDOUT,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    cache: Annotated[str | None, typer.Option(help="Folder for memory-mapped copies of the data.", hidden=True)] = None,
    missing: TrainingMissing = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Read LETOR text with very many features as a sparse matrix.", hidden=True)
    ] = False,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting of the chosen kind of ranker; repeatable.", metavar="name=value"),
    ] = None,
    init_model: Annotated[Path | None, typer.Option(help="Model to start from.")] = None,
) -> None:
    """Train a ranker, save the best epoch, and evaluate the model on test lists.

    Example: `rankgrad train --data MQ2008 --fold 1 --loss lambdaloss@5 --out runs/a`
    """
    from rankgrad.cli.argument_checks import only_run, pair, parse_value
    from rankgrad.cli.data_source import DataSource
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.shared_options import one_line
    from rankgrad.run import NotFinite

    console = messages(as_json)
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
    checked = _check(kind, settings, source, out, resume, overwrite, data is not None, init_model)
    assert source is not None
    if added:
        console.print(added, markup=False)
    try:
        with one_line(NotFinite), only_run(out):
            check_folder(kind, out, resume, overwrite)  # again, because another run may have finished in the meantime
            _run(console, kind, settings, checked, source, out, resume, overwrite, init_model, as_json)
    except KeyboardInterrupt:
        if is_first():
            typer.echo(f"\nStopped. {_how_to_resume(kind, out, settings, source, init_model)}", err=True)
        raise typer.Exit(130) from None


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


def _how_to_resume(
    kind: "RankerKind", out: Path, settings: dict[str, Any], source: "DataSource", init_model: Path | None
) -> str:
    if not kind.resumes(out):
        return f"No {kind.unit} is complete: there is nothing to resume."
    cache = "" if source.cache is None else f"--cache {shlex.quote(source.cache)} "
    length = {**kind.defaults, **settings}.get(kind.length or "")
    limit = "" if length is None else f"--epochs {length} "
    start = "" if init_model is None else f"--init-model {shlex.quote(str(init_model))} "
    return f"To resume: rankgrad train --resume {limit}{cache}{start}--out {shlex.quote(str(out))}"


def _check(
    kind: "RankerKind",
    settings: dict[str, Any],
    source: "DataSource | None",
    out: Path,
    resume: bool,
    overwrite: bool,
    given: bool,
    init_model: Path | None,
) -> Any:
    """Check the options of `rankgrad train`: raise one error with all problems, before any data is read.

    Return the checked settings, for `RankerKind.fit`.
    """
    from rankgrad.cli.argument_checks import check_device, together
    from rankgrad.cli.data_source import KEPT
    from rankgrad.models.registry import saved_kind

    def named() -> None:
        if source is None:
            why = f", because {out} does not contain {KEPT}" if resume else ""
            bad_value("data", f"be given{why}", None)
        source.check(None if given else out)

    checked: list[Any] = []
    together(
        lambda: checked.append(kind.checked(settings)),
        kind.check_installed,
        lambda: check_device(str(settings.get("device", "auto"))),
        named,
        lambda: check_folder(kind, out, resume, overwrite),
        lambda: None if init_model is None else saved_kind(init_model),
    )
    return checked[0]


def check_folder(kind: "RankerKind", out: Path, resume: bool, overwrite: bool) -> None:
    """Check that the training of a ranker of this kind can start or resume in the folder `--out`."""
    from rankgrad.cli.overwrite import check_overwrite
    from rankgrad.models.folder import CONFIG
    from rankgrad.models.registry import saved_kind

    if not is_first():  # the first process may already write to the folder
        return
    if out.exists() and not out.is_dir():
        bad_value("out", "be a folder", f"the file {out}")
    if overwrite:
        if resume:
            bad_value("overwrite", "not be given with --resume", "both")
        if int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))) > 1:
            bad_value(
                "overwrite", "not be given in a run with several processes (remove the folder first)", "--overwrite"
            )
        check_overwrite(out)
        return
    if (out / CONFIG).exists():
        saved = saved_kind(out)  # raises an error if another program wrote the file
        if (saved.saved_as or saved.name) != (kind.saved_as or kind.name):
            bad_value("out", "be a new folder", f"{out}, which contains a model of the kind {saved.name}")
    if not resume and kind.has_run(out):
        bad_value("out", "be a new folder (or add --resume or --overwrite)", f"{out}, which contains a run")


def _run(
    console: "Console",
    kind: "RankerKind",
    settings: dict[str, Any],
    checked: Any,
    source: "DataSource",
    out: Path,
    resume: bool,
    overwrite: bool,
    init_model: Path | None,
    as_json: bool,
) -> None:
    from rankgrad.atomic_files import write_json
    from rankgrad.cli.data_source import columns_text, telling
    from rankgrad.cli.json_output import print_json
    from rankgrad.cli.overwrite import remove_run
    from rankgrad.cli.shared_options import detail, options
    from rankgrad.data.inspection_checks import warn_shared
    from rankgrad.models.registry import load
    from rankgrad.run.log import row_text

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
    console.print(f"training {kind.describe(settings)}, {features} features", markup=False)
    resumed = resume and kind.resumes(out)
    record = {"settings": {**kind.defaults, **settings}}
    for name, value in record["settings"].items():
        detail(f"  {name}: {value}")
    start = None if init_model is None else load(init_model)
    if overwrite:
        remove_run(out)
    if is_first() and not resumed:
        source.keep(out)
        write_json(out / RUN, record, seal=True)
    fitting: dict[str, Any] = {"out": out, "resume": resume, "init_model": start}
    fitting["progress"] = is_first() and not options.quiet
    if (
        options.verbose and not options.quiet
    ):  # one line per epoch or tree, also of a run whose progress has fewer lines
        total = record["settings"].get(kind.length or "")
        fitting |= {"progress": None, "callbacks": [lambda row: detail(row_text(row, kind.unit, total))]}
    with telling():
        model = kind.fit(checked, parts["train"], parts.get("validation"), **fitting)
    if is_first():
        if resumed:  # `fit` has checked that the run has the same data
            source.keep(out)
            write_json(out / RUN, record, seal=True)
        if not kind.has_run(out):
            model.save(out)
        sizes = {name: len(part) for name, part in parts.items()}
        result = _report(console, model, parts.get("test"), out)
        if as_json:
            print_json({"model": out, "kind": kind.name, "lists": sizes, "features": features, **result, **record})


def _report(console: "Console", model: "TrainedModel", test: "Dataset | None", out: Path) -> dict[str, Any]:
    """Evaluate the model of `rankgrad train` on the test lists, and print and return the result."""
    from rankgrad.cli.terminal_tables import default_metrics, print_metrics
    from rankgrad.models.folder import write_metrics

    found: dict[str, Any] = {"unit": model.unit, **print_history(console, model)}
    if test is not None:
        result = model.evaluate(test, default_metrics(test))
        write_metrics(out, {**model.metrics, "test": result.means})
        console.print(f"\non {len(test):,} test lists:")
        print_metrics(result.rows(), result.notes(), console=console)
        found["test"] = json.loads(result.to_json())
    console.print(f"model: {out}", markup=False)
    console.print(f"next:  rankgrad predict {shlex.quote(str(out))} FILE --out scores.txt", markup=False)
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
