"""`rankgrad tune`: searches for good settings for a data set, and saves the best model."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.missing_option import FILLS, TuningMissing, training_missing
from rankgrad.cli.shared_options import described
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.cli.training_run import print_saved, search_run, tested
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.cli.data_source import DataSource
    from rankgrad.experiments.tuning import Search, Trial

TRIALS = "trials"  # folder of the trials, in the folder of the model

_SHOWN = 5  # number of trials in the table


@with_table_options
def tune(
    table: TableOptions,
    data: Annotated[str, typer.Option(help="Data set, folder, LETOR file or table.", show_default=False)],
    model: Annotated[str, described("Ranker; the options in the spec are fixed", "mlp")] = "mlp",
    loss: Annotated[str | None, described("Loss", "default loss of the model")] = None,
    budget: Annotated[int, described("Number of settings to try", "40")] = 40,
    out: Annotated[Path, described("Output folder", "runs/best")] = Path("runs/best"),
    fold: Annotated[int | None, described("Fold number, for data sets with folds")] = None,
    data_root: Annotated[str | None, described("Folder of data sets", "$RANKGRAD_DATA")] = None,
    holdout: Annotated[float, described("Share of lists to hold out if there is no validation part", "0.2")] = 0.2,
    epochs: Annotated[int | None, described("Epochs or trees of the longest trials", "100 epochs, 300 trees")] = None,
    metric: Annotated[str, described("Validation metric; selects the model", "nDCG@10")] = "nDCG@10",
    fix: Annotated[list[str] | None, described("Fixed setting; repeatable", "", "lr=0.01", "--set")] = None,
    vary: Annotated[
        list[str] | None,
        described("Range of a setting, or choices, as in model.norm=none|layer", "", "lr=0.01..1", "--vary"),
    ] = None,
    seed: Annotated[int, described("Random seed of the search", "0")] = 0,
    jobs: Annotated[int | None, described("Processes", "one per core")] = None,
    device: Annotated[str, described("cpu or cuda", "cpu")] = "cpu",
    missing: TuningMissing = None,
    overwrite: Annotated[bool, described("Replace the search in --out", "", None, "--overwrite")] = False,
    as_json: Annotated[bool, described("Print the result as JSON", "", None, "--json")] = False,
) -> None:
    """Try random settings in rounds, and save the best model. Each round trains the best third of the trials longer.

    After an interruption, the same command resumes. With a larger `--budget`, the search tries more settings.

    Example: `rankgrad tune --data MQ2008 --fold 1 --loss lambdaloss@10 --budget 40`
    """
    from rankgrad.cli.argument_checks import check_device, pair, parse_value, together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.overwrite import remove_run
    from rankgrad.experiments.tuning import Search
    from rankgrad.models.registry import kind_or_default

    kept = dict(pair("set", text, parse_value) for text in fix or ())
    kept |= {"missing": missing} if missing in FILLS else {}
    kind = kind_or_default(model)
    given = {"model": model, "loss": loss, "epochs": epochs, "metric": metric, "device": device}
    read_as = training_missing(missing, kind, given, data)
    source = DataSource(data, fold, data_root, missing=read_as, holdout=holdout, seed=kept.get("seed", 0))
    source = replace(source, columns=table.columns(), regroup=table.regroup)
    begun = None if overwrite else _begun(out)
    source = replace(source, data=kind.training_data(data, None if begun is None else begun["data"]))
    source = source if begun is None else _as_begun(source, begun, missing)
    base, _ = kind.read({**{name: value for name, value in given.items() if value is not None}, **kept})
    varied = tuple(
        (kind.words.get(name, name), values) for name, values in (pair("vary", text, _choices) for text in vary or ())
    )
    search = Search(base, budget, tuple(kind.words.get(name, name) for name in kept), varied, seed)
    if jobs is not None and jobs < 1:
        bad_value("jobs", "be at least 1", jobs)
    together(
        kind.check_installed,
        search.check,
        source.check,
        lambda: check_device(device),
        lambda: _check_folder(out, search, source, overwrite),
    )
    console = messages(as_json)
    _state(console, search)
    with search_run(out, overwrite):
        _check_folder(out, search, source, overwrite)  # check again, because another run may have finished
        with telling(f"reading {data}"):
            source.read()  # an error or a warning about the data is printed once, before the processes start
        if overwrite:
            remove_run(out)
        rounds = _run(search, source, out, jobs)
        found = _report(console, search, rounds)
        found["test"] = _save(console, search.best_first(rounds[-1])[0], source, out)
    if as_json:
        print_json({"model": out, "metric": search.metric, "space": search.space, **found})


def _choices(text: str) -> Any:
    """Read the text of `--vary`: `low..high` or `a|b|c`. The scale is logarithmic if `high` is at least 10 `low`."""
    from rankgrad.cli.argument_checks import parse_value

    low, dots, high = text.partition("..")
    if not dots:
        return [parse_value(choice.strip()) for choice in text.split("|")]
    ends: dict[str, Any] = {"low": parse_value(low), "high": parse_value(high)}
    numbers = all(isinstance(end, int | float) for end in ends.values())
    return {**ends, "log": bool(numbers and 0 < 10 * ends["low"] <= ends["high"])}


def _check_folder(out: Path, search: "Search", source: "DataSource", overwrite: bool) -> None:
    """Check that the output folder contains no different search of `rankgrad tune`, and no model of another command."""
    from rankgrad.atomic_files import check_plain, read_json
    from rankgrad.cli.overwrite import check_overwrite
    from rankgrad.models.folder import CONFIG

    for folder in (out, out / TRIALS):
        if folder.is_dir():
            check_plain(folder)
    path = out / TRIALS / "search.json"
    if overwrite:
        check_overwrite(out)
    elif path.is_file():
        then, now = read_json(path), _record(search, source)
        for name in now:
            if then.get(name) != now[name]:
                bad_value(
                    "out",
                    f"be a new folder, or contain a search with {name} {now[name]} (or add --overwrite)",
                    f"{out}, which contains a search with {name} {then.get(name)}",
                )
    elif (out / CONFIG).exists() or search.kind.has_run(out):
        bad_value("out", "be a new folder (or add --overwrite)", f"{out}, which contains a model")


def _begun(out: Path) -> dict[str, Any] | None:
    """Return the recorded data source of a search that has begun; None for a new search."""
    from rankgrad.atomic_files import read_json

    path = out / TRIALS / "search.json"
    then = read_json(path).get("data") if path.is_file() else None
    return then if isinstance(then, dict) and isinstance(then.get("data"), str) else None


def _as_begun(source: "DataSource", then: dict[str, Any], missing: str | None) -> "DataSource":
    """Return the data source of a search. A search that has begun keeps its treatment of missing values.

    The seed is None for a search of version 0.1, which recorded no seed.
    """
    source = replace(source, seed=None) if "seed" not in then else source
    return source if missing is not None else replace(source, missing=then.get("missing"))


def _record(search: "Search", source: "DataSource") -> dict[str, Any]:
    """Return the values that must be equal to resume a search of `rankgrad tune`. The budget is not included."""
    import json

    settings = {**search.kind.defaults, **search.base}
    lists = {name: value for name, value in source.to_json().items() if name != "seed" or value is not None}
    record = {"settings": settings, "space": search.space, "seed": search.seed, "data": lists}
    return dict(json.loads(json.dumps(record)))


def _state(console: "Console", search: "Search") -> None:
    """Print the search space, and the number and length of the trials of each round."""
    kind = search.kind
    console.print(f"{kind.describe(search.base)}; validation metric: {search.metric}", markup=False)
    console.print(
        "random settings:" if search.space else "no setting is random: use --vary to give a range", markup=False
    )
    for name, choices in search.space.items():
        if isinstance(choices, dict):
            shown = f"{choices['low']:g} to {choices['high']:g}" + (", log scale" if choices.get("log") else "")
        else:
            shown = ", ".join(str(choice).replace(",", " then ") for choice in choices)
        console.print(f"  {name:<18} {shown}", markup=False)
    rungs = search.halving_rounds()
    rounds = ", then the best ".join(f"{count} for {epochs} {kind.unit}s" for count, epochs in rungs)
    halving = f"successive halving: {rounds}" if kind.length else f"{rungs[0][0]} trials"
    console.print(f"{halving}. The first trial has the default settings.", markup=False)


def _run(search: "Search", source: "DataSource", out: Path, jobs: int | None) -> list[list["Trial"]]:
    """Run all rounds of the search; return the trials of each round."""
    from rankgrad.atomic_files import write_json
    from rankgrad.cli.experiment import cores
    from rankgrad.cli.progress import Progress
    from rankgrad.experiments import tuning as tuning
    from rankgrad.parallel.process_pool import Pool

    write_json(out / TRIALS / "search.json", _record(search, source), seal=True)
    counts = [count for count, _ in search.halving_rounds()]
    rounds: list[list[Any]] = [[] for _ in counts]
    # Relative paths are also valid in the started processes, which have the same current folder.
    with Pool(jobs or cores()) as pool, Progress("trials") as progress:
        for trial, turn, left in tuning.tune(search, source, out / TRIALS, pool.run):
            rounds[turn].append(trial)
            done = sum(counts[: turn + 1]) - left
            text = f"round {turn + 1}, trial {trial.name}: {search.metric} {trial.value:.4f}"
            progress.at(text, done, sum(counts))
    return rounds


def _report(console: "Console", search: "Search", rounds: list[list["Trial"]]) -> dict[str, Any]:
    """Print the best trials and the importance of the settings; return both for `--json`."""
    from rankgrad.cli.terminal_tables import print_names
    from rankgrad.experiments.setting_importance import importance

    last = {trial.name: trial for turn in rounds for trial in turn}
    finalists = search.best_first(rounds[-1])
    order = finalists + [trial for trial in search.best_first(last.values()) if trial not in finalists]
    rows = []
    for trial in order[:_SHOWN]:
        settings = ", ".join(f"{name} {value}" for name, value in trial.drawn.items()) or "the default"
        rows.append((trial.name, f"{trial.value:.4f}", f"{trial.epoch} of {trial.epochs}", settings))
    print_names(("trial", search.metric, search.kind.unit, "settings"), rows, console=console)
    found: dict[str, Any] = {"trials": [trial._asdict() for trial in order], "importance": None}
    drawn = sorted((trial for trial in rounds[0] if trial.drawn), key=lambda trial: trial.name)  # so that runs agree
    if len(drawn) < 10 or len({trial.value for trial in drawn}) < 2:
        console.print("importance of settings: needs at least 10 trials with different results")
        return found
    weights, fit = importance([trial.drawn for trial in drawn], [trial.value for trial in drawn])
    shown = [(w.setting, f"{w.share:.0%}", "" if w.trend is None else f"{w.trend:+.2f}") for w in weights]
    print_names(("setting", "importance", "trend"), shown, console=console)
    after = f"{search.halving_rounds()[0][1]} {search.kind.unit}s"
    console.print(
        f"A random forest predicts {search.metric} of the {len(drawn)} trials after {after} from the settings.\n"
        f"importance: decrease of the forest's R² if the values of a setting are shuffled, divided by the sum of all "
        "decreases;\n"
        f"trend: rank correlation of a setting with {search.metric}.\n"
        "Importance and trend describe only these trials. They do not show causes. Longer training may change them.\n"
        f"The out-of-bag R² of the forest is {fit:.2f}" + (": do not rely on the importance." if fit < 0.2 else "."),
        markup=False,
    )
    return {**found, "importance": {w.setting: {"share": w.share, "trend": w.trend} for w in weights}, "fit": fit}


def _save(console: "Console", best: "Trial", source: "DataSource", out: Path) -> Any:
    """Evaluate the model of the best trial on the test lists, save the model, and return the evaluation.

    The result is a dictionary as in JSON, or None if there are no test lists.
    """
    from rankgrad.models.registry import load

    model = load(out / TRIALS / best.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # printed when the search began
        test = source.read().get("test")
    result = tested(console, model, test, "the best trial on {} test lists, which were not used in the search:")
    source.keep(out)
    model.save(out)
    print_saved(console, out, f"; trials: {out / TRIALS}")
    return result
