"""`rankgrad train`: from labelled lists to a saved model."""

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.checks import is_first

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.cli.sources import Source
    from rankgrad.data import Dataset
    from rankgrad.training import Model, Settings

HOLDOUT = 0.2


def _setting(help: str, default: str, kind: str = "<str>", *names: str, more: bool = False) -> Any:
    """A setting as an option. It stays text until all settings are checked together; None: not given."""
    text = f"{help} ({default})"  # a default shown by Typer would take a line of its own
    return typer.Option(*names, help=text, metavar=kind, rich_help_panel="Settings (and their defaults)", hidden=more)


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for model and checkpoints.", show_default=False)],
    data: Annotated[str | None, typer.Option(help="Known set, folder or file of LETOR text.")] = None,
    fold: Annotated[int | None, typer.Option(help="Which fold, for sets that have folds.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Where known sets lie; else RANKGRAD_DATA.")] = None,
    holdout: Annotated[
        float, typer.Option(help="For validation where data has none (0.2).", show_default=False)
    ] = HOLDOUT,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    cache: Annotated[str | None, typer.Option(help="Folder for memory-mapped copies of the data.", hidden=True)] = None,
    missing: Annotated[str | None, typer.Option(help="What NaN and infinities become.", hidden=True)] = None,
    model: Annotated[str | None, _setting("rankgrad list models; lightgbm, xgboost", "mlp")] = None,
    loss: Annotated[str | None, _setting("Loss: rankgrad list losses", "lambdaloss")] = None,
    preprocess: Annotated[str | None, _setting("Or log1p, quantile, clip=10, none", "standardise")] = None,
    epochs: Annotated[str | None, _setting("Passes over the lists, at most", "100", "<int>")] = None,
    batch_size: Annotated[str | None, _setting("Lists a step", "64", "<int>")] = None,
    lr: Annotated[str | None, _setting("Learning rate", "0.001", "<float>")] = None,
    metric: Annotated[str | None, _setting("On validation; its best epoch is kept", "nDCG@10")] = None,
    patience: Annotated[str | None, _setting("Epochs without a better one, at most", "20", "<int>")] = None,
    seed: Annotated[str | None, _setting("Of everything random", "0", "<int>")] = None,
    device: Annotated[str | None, _setting("auto, cpu or cuda", "auto")] = None,
    batch_documents: Annotated[
        str | None, _setting("Documents a step, instead of lists", "none", "<int>", more=True)
    ] = None,
    list_size: Annotated[
        str | None, _setting("Cut longer training lists to this, anew each epoch", "none", "<int>", more=True)
    ] = None,
    optimiser: Annotated[
        str | None,
        _setting(
            "adagrad, adam, adamw, nadam, radam, rmsprop, sgd", "adam", "<str>", "--optimiser", "--optimizer", more=True
        ),
    ] = None,
    weight_decay: Annotated[str | None, _setting("Of the ranker", "0.0", "<float>", more=True)] = None,
    loss_lr: Annotated[
        str | None, _setting("Learning rate of a loss's own parameters; none: lr", "none", "<float>", more=True)
    ] = None,
    schedule: Annotated[
        str | None, _setting("constant, cosine, step:every=50,factor=0.1, plateau", "constant", more=True)
    ] = None,
    warmup: Annotated[
        str | None, _setting("Epochs in which the rate rises from 0", "0.0", "<float>", more=True)
    ] = None,
    clip: Annotated[str | None, _setting("Largest norm of the gradient", "none", "<float>", more=True)] = None,
    ema: Annotated[
        str | None, _setting("Decay of an average of the weights, which is kept", "0.0", "<float>", more=True)
    ] = None,
    precision: Annotated[str | None, _setting("fp32, bf16 or fp16", "fp32", more=True)] = None,
    data_on: Annotated[
        str | None, _setting("Where lists are in training: auto, device, stream", "auto", more=True)
    ] = None,
    save_steps: Annotated[
        str | None, _setting("A checkpoint every so many steps, too", "none", "<int>", more=True)
    ] = None,
    trackers: Annotated[
        list[str] | None, _setting("tensorboard, mlflow or wandb; repeatable", "none", "<str>", "--tracker", more=True)
    ] = None,
    help_all: Annotated[
        bool, typer.Option("--help-all", help="Show all settings.", is_eager=True, callback=_help_all)
    ] = False,
) -> None:
    """Train a ranker, keep its best epoch on validation, measure it on test.

    Example: `rankgrad train --data MQ2008 --fold 1 --loss lambdaloss@5 --out runs/a`
    """
    from rankgrad.cli.checks import only_run
    from rankgrad.cli.screen import screen
    from rankgrad.cli.sources import Source
    from rankgrad.cli.train_trees import is_tree, train_trees
    from rankgrad.training import NotFinite

    console = screen(quiet=not is_first(), highlight=False, soft_wrap=True)
    if data is not None:
        source: Source | None = Source(data, fold, data_root, cache, missing, holdout)
    elif source := Source.kept(out) if resume else None:
        source = replace(source, cache=cache)
    if is_tree(model):
        train_trees(console, context.params, source, out)
        return
    settings, taken = _settings(context.params, out if resume else None)
    _check(settings, source, out, resume, data is not None)
    assert source is not None
    if taken:
        console.print(taken, markup=False)
    try:
        with only_run(out):
            _check_folder(out, resume)  # once more: another run may have ended since
            _run(console, settings, source, out, resume)
    except KeyboardInterrupt:
        if is_first():
            typer.echo(f"\nStopped. {_how_to_go_on(out, settings, source)}", err=True)
        raise typer.Exit(130) from None
    except NotFinite as error:
        typer.echo(f"rankgrad: {error}", err=True)
        raise typer.Exit(1) from None


def _how_to_go_on(out: Path, settings: "Settings", source: "Source") -> str:
    from rankgrad.training.state import LAST

    if not (out / LAST).is_file():
        return "No epoch was done: there is nothing to go on from."
    cache = "" if source.cache is None else f"--cache {shlex.quote(source.cache)} "
    return f"To go on: rankgrad train --resume --epochs {settings.epochs} {cache}--out {shlex.quote(str(out))}"


def _settings(parameters: dict[str, Any], resumed: Path | None) -> tuple["Settings", str]:
    """The settings: those given, then those of the run that is resumed or of a preset; and what to say about these."""
    from rankgrad.rankers import PRESETS
    from rankgrad.training import Settings
    from rankgrad.training.model import CONFIG, read_config

    given: dict[str, Any] = {}
    for field in fields(Settings):
        value = parameters[field.name]
        if value:
            given[field.name] = value if isinstance(field.default, str) else _read(value)
    if resumed is not None and (resumed / CONFIG).is_file():
        kept = read_config(resumed).get("settings", {})
        try:
            Settings.of(kept).check()
        except (ValueError, TypeError) as error:
            got = str(error).partition("\n")[0]
            raise ValueError(f"{resumed / CONFIG} must hold settings of a run; got {got}") from error
        return Settings.of({**kept, **given}), ""
    name = given.get("model", "").partition(":")[0].strip().lower().replace("_", "-")
    if name not in PRESETS:
        return Settings(**given), ""
    preset = PRESETS[name]
    takes = {"batch_size": "batch"}
    brought = {
        setting: value
        for setting in Settings.names()
        if setting not in given and (value := getattr(preset, takes.get(setting, setting), None)) is not None
    }
    said = ", ".join(f"{setting} {value}" for setting, value in brought.items())
    return Settings(**brought, **given), f"{name} ({preset.source}) brings: {said or 'nothing more'}"


def _read(value: Any) -> Any:
    """Trackers, a number or None; what is no number stays text, for the check to complain about."""
    if not isinstance(value, str):
        return tuple(value)
    if value.strip().lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _check(settings: "Settings", source: "Source | None", out: Path, resume: bool, given: bool) -> None:
    """Raise one error that names all that is wrong, before anything is read."""
    from rankgrad.cli.checks import check_device, together
    from rankgrad.cli.sources import KEPT
    from rankgrad.errors import bad_value

    def named() -> None:
        if source is None:
            unsaid = f": {out} holds no {KEPT}, which would name it" if resume else ", to train on"
            bad_value("data", f"be given{unsaid}", "nothing")
        source.check(None if given else out)

    together(settings.check, lambda: check_device(settings.device), named, lambda: _check_folder(out, resume))


def _check_folder(out: Path, resume: bool) -> None:
    from rankgrad.errors import bad_value
    from rankgrad.training.model import CONFIG, WEIGHTS, read_config
    from rankgrad.training.state import LAST

    if not is_first():  # the first process may have begun to write
        return
    if out.exists() and not out.is_dir():
        bad_value("out", "be a folder", f"the file {out}")
    if (out / CONFIG).exists():
        read_config(out)  # which complains of one that is not ours
    if not resume and ((out / LAST).exists() or (out / WEIGHTS).exists()):
        bad_value("out", "be a new folder", f"{out}, which holds a run: add --resume to go on with it")


def _run(console: "Console", settings: "Settings", source: "Source", out: Path, resume: bool) -> None:
    from rankgrad.cli.sources import telling
    from rankgrad.training import train as fit
    from rankgrad.training.state import LAST

    with telling(f"reading {source.data}"):
        whole = source.read()
        parts = source.hold_out(whole)
    held = f", held out of train: the data has no such part (--holdout {source.holdout:g})"
    for name, part in parts.items():
        where = "" if name in whole else held
        console.print(f"{name}: {len(part):,} lists, {len(part.labels):,} documents{where}", markup=False)
    if "validation" not in parts:
        console.print("no validation lists: the last epoch is kept")
    described = f"{settings.model} with {settings.loss}, {parts['train'].features.shape[1]} features"
    console.print(f"training {described}, preprocess {settings.preprocess}, seed {settings.seed}", markup=False)
    resumed = resume and (out / LAST).exists()
    if is_first() and not resumed:
        source.keep(out)
    with telling():
        model = fit(settings, parts["train"], parts.get("validation"), out=out, resume=resume)
    if is_first():
        if resumed:  # and the data was that of the run
            source.keep(out)
        _report(console, model, parts.get("test"), out)


def _report(console: "Console", model: "Model", test: "Dataset | None", out: Path) -> None:
    from rankgrad.cli.tables import METRICS, print_metrics
    from rankgrad.training.model import write_metrics

    epochs, seconds = len(model.history), sum(row["seconds"] + row["judge_seconds"] for row in model.history)
    best = "".join(f", {name} {value:.4f} on validation" for name, value in model.metrics.get("validation", {}).items())
    console.print(f"kept epoch {model.metrics.get('epoch')} of {epochs}{best}; {seconds:.1f} s", markup=False)
    if learned := model.metrics.get("loss"):
        values = ", ".join(f"{name} {value:.4g}" for name, value in learned.items())
        console.print(f"learned by the loss: {values}", markup=False)
    if test is not None:
        result = model.evaluate(test, METRICS)
        write_metrics(out, {**model.metrics, "test": result.means})
        console.print(f"\non {len(test):,} test lists:")
        print_metrics(result.rows(), result.notes())
    console.print(f"model: {out}", markup=False)
    console.print(f"next:  rankgrad predict {shlex.quote(str(out))} FILE --out scores.txt", markup=False)
