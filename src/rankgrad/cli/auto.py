"""`rankgrad auto`: finds the best ranker for a data set in a given time, and saves it."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.missing_option import FILLS, NAN, AutoMissing
from rankgrad.cli.shared_options import described
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.cli.training_run import print_saved, search_run, tested
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.auto.final_model import AutoResult

SEARCH = "search"  # folder of the search, in the folder of the model

_SHOWN = 15  # number of candidates in the table


@with_table_options
def auto(
    table: TableOptions,
    data: Annotated[str, typer.Option(help="Data set, folder, LETOR file or table.", show_default=False)],
    minutes: Annotated[float | None, described("Duration of the search", "10")] = None,
    trials: Annotated[int | None, described("Number of candidates (no time limit)")] = None,
    out: Annotated[Path, described("Output folder", "runs/best")] = Path("runs/best"),
    fold: Annotated[int | None, described("Fold number, for data sets with folds")] = None,
    data_root: Annotated[str | None, described("Folder of data sets", "$RANKGRAD_DATA")] = None,
    metric: Annotated[str, described("Metric that chooses candidates and ensemble", "nDCG@10")] = "nDCG@10",
    folds: Annotated[int, described("Number of folds", "5")] = 5,
    single: Annotated[bool, described("Save one model, not an ensemble", "", None, "--single")] = False,
    max_latency: Annotated[
        str | None, described("Largest latency per 100 documents on one core", "", "2ms", "--max-latency")
    ] = None,
    distil: Annotated[str | None, described("Train one model on ensemble scores", "", "mlp|lightgbm")] = None,
    memory: Annotated[str | None, described("Memory limit of all processes", "80% of the free memory", "4GB")] = None,
    seed: Annotated[int, described("Random seed", "0")] = 0,
    jobs: Annotated[int | None, described("Processes", "one per core")] = None,
    ray: Annotated[str | None, described("Ray cluster: auto or address", "", "ADDRESS")] = None,
    missing: AutoMissing = None,
    overwrite: Annotated[bool, described("Replace the search in --out", "", None, "--overwrite")] = False,
    as_json: Annotated[bool, described("Print the result as JSON", "", None, "--json")] = False,
) -> None:
    """Try trees, networks and linear rankers with several losses, combine the best models, and save the result.

    The search uses all labelled lists except the test part, by cross-validation. Ctrl-C saves the best model so far. If
    the command is killed, run the same command again to resume. With more `--minutes` or `--trials`, the search
    continues.

    Example: `rankgrad auto --data MQ2008 --fold 1 --minutes 10 --out runs/best`
    """
    from rankgrad.cli.argument_checks import together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.experiment import cores
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.overwrite import check_overwrite, remove_run
    from rankgrad.data.inspection_checks import warn_shared
    from rankgrad.data.loading import is_benchmark
    from rankgrad.data.memory_limits import free_memory
    from rankgrad.models.auto.final_model import FinalSettings
    from rankgrad.models.auto.search import SearchSettings
    from rankgrad.parallel.clock import now

    begun = now() - time.process_time()  # about the start of the process
    if minutes is not None and trials is not None:
        bad_value("--minutes and --trials", "not be given together", f"{minutes:g} and {trials}")
    seconds = None if trials is not None else 60.0 * (10.0 if minutes is None else minutes)
    read_as = NAN if missing is None and not is_benchmark(data) else missing
    source = DataSource(data, fold, data_root, missing=read_as, holdout=0.0)
    source = replace(source, columns=table.columns(), regroup=table.regroup)
    limit = int(0.8 * free_memory()) if memory is None else _bytes(memory)
    count = cores() if jobs is None else jobs
    treated = missing if missing is None or missing in FILLS else None if missing == NAN else "error"
    settings = SearchSettings(seconds, trials, metric, folds, seed, limit, count, treated)
    final = FinalSettings(single, None if max_latency is None else _seconds(max_latency), distil)
    together(
        settings.check,
        final.check,
        source.check,
        lambda: check_overwrite(out) if overwrite else _check_folder(out),
    )
    console = messages(as_json)
    with search_run(out, overwrite):
        if overwrite:
            remove_run(out)
        with telling(f"reading {data}"):
            parts = source.read()
            if "test" in parts:
                warn_shared(parts["train"], parts["test"])
        result = _run(console, parts, settings, final, out, begun, ray)
        found = _save(console, result, parts, source, out)
    if as_json:
        print_json({"model": out, **result.to_json(), "test": found})


_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BYTES = {"gb": 1e9, "mb": 1e6, "kb": 1e3}


def _amount(text: str, units: dict[str, float], usual: str) -> float:
    """Read an amount such as `2ms` or `0.5 GB`; without a unit, it has the usual one. NaN if it is not a number."""
    number = text.strip().lower()
    unit = next((ending for ending in units if number.endswith(ending)), "")
    try:
        return float(number.removesuffix(unit)) * units[unit or usual]
    except ValueError:
        return float("nan")


def _seconds(text: str) -> float:
    """Read the duration of `--max-latency`, such as `2ms`, `0.5 ms` or `1s`, and return seconds."""
    seconds = _amount(text, _SECONDS, "ms")
    if math.isnan(seconds):
        bad_value("max_latency", "be a duration such as 2ms", repr(text))
    return seconds


def _bytes(text: str) -> int:
    """Read the size of `--memory`, such as `4GB` or `500MB`, and return the number of bytes."""
    size = _amount(text, _BYTES, "gb")
    if not 0 < size < float("inf"):
        bad_value("memory", "be a size such as 4GB", repr(text))
    return int(size)


def _check_folder(out: Path) -> None:
    """Check that the output folder is new, or contains a search of `rankgrad auto`."""
    from rankgrad.atomic_files import check_plain
    from rankgrad.models.folder import CONFIG

    for folder in (out, out / SEARCH):
        if folder.is_dir():
            check_plain(folder)
        elif folder.exists():
            bad_value("out", "be a folder", f"{folder}, which is a file")
    if (out / CONFIG).exists() and not (out / SEARCH).is_dir():
        bad_value("out", "be a new folder (or add --overwrite)", f"{out}, which contains a model")


def _run(
    console: "Console", parts: dict[str, Any], settings: Any, final: Any, out: Path, begun: float, ray: str | None
) -> "AutoResult":
    """Run the search of `rankgrad auto`, and show the leaderboard during the search."""
    from rankgrad.cli.live_leaderboard import LiveLeaderboard
    from rankgrad.models.auto.portfolio import missing_notes
    from rankgrad.models.auto.run import run_search
    from rankgrad.models.auto.stored_lists import joined

    data = joined(parts["train"], parts.get("validation"))
    pool: Any
    if ray is not None:
        from rankgrad.parallel.ray_pool import RayPool

        pool = RayPool(ray)
    else:
        from rankgrad.parallel.process_pool import Pool

        pool = Pool(settings.jobs)
    settings = replace(settings, jobs=pool.jobs)
    minutes = (settings.seconds or 0) / 60
    length = f"{minutes:g} minute{'' if minutes == 1 else 's'}" if settings.seconds else f"trials: {settings.trials}"
    console.print(
        f"lists: {len(data):,}, documents: {len(data.labels):,}, features: {data.features.shape[1]}; {length}, "
        f"processes: {settings.jobs}; metric: {settings.metric}",
        markup=False,
    )
    for note in missing_notes():
        console.print(note, markup=False)
    with pool, LiveLeaderboard() as shown:
        return run_search(data, settings, final, out / SEARCH, pool.run, begun=begun, told=shown.at)


def _kept_gain(result: "AutoResult", test: "Dataset") -> Iterator[str]:
    """Yield a sentence about the student of `--distil`: its metric, and its share of the ensemble's improvement."""
    if not result.compared:
        return
    models = {"student": result.model, **result.compared}
    values = {name: model.evaluate(test, [result.metric])[result.metric] for name, model in models.items()}
    shown = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
    student, ensemble, best = values.values()
    share = (
        f"; the student has {(student - best) / (ensemble - best):.0%} of the ensemble's gain over the best candidate"
        if ensemble != best
        else ""
    )
    yield f"{result.metric} on the test lists: {shown}{share}"


def _save(console: "Console", result: "AutoResult", parts: dict[str, Any], source: "DataSource", out: Path) -> Any:
    """Print the leaderboard and the ensemble, evaluate the model on the test lists, and save the model."""
    from rankgrad.cli.live_leaderboard import LEADERBOARD, leaderboard_row
    from rankgrad.cli.overwrite import replace_model
    from rankgrad.cli.terminal_tables import print_names

    heads = tuple(head.format(metric=result.metric) for head in LEADERBOARD)
    print_names(heads, [leaderboard_row(row) for row in result.leaderboard[:_SHOWN]], console=console)
    for line in result.summary():
        console.print(line, markup=False)
    model, test = result.model, parts.get("test")
    found = tested(console, model, test, "on {} test lists, which were not used in the search:")
    if test is not None:
        for line in _kept_gain(result, test):
            console.print(line, markup=False)
    if source.missing == NAN and not model.takes_missing:
        source = replace(source, missing=None)  # the lists had no NaN, and later lists with NaN are an error
    replace(source, trained=("train", "validation")).keep(out)
    replace_model(model, out)
    print_saved(console, out, f"; search: {out / SEARCH}")
    return found
