"""`rankgrad experiment`: runs the unfinished cells of a recipe, and prints the table of the recipe."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.option_groups import DataRoot
from rankgrad.cli.option_names import as_typed
from rankgrad.cli.terminal_text import shown
from rankgrad.errors import MissingFile, bad_value

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.experiments import Recipe


def _names() -> list[str]:
    from rankgrad.experiments.recipes.shipped import shipped_recipes

    return [*shipped_recipes()]


def experiment(
    recipe: Annotated[
        str,
        typer.Argument(help="Name (see `rankgrad list recipes`) or file.", show_default=False, autocompletion=_names),
    ],
    only: Annotated[list[str] | None, typer.Option(help="Run only this data set; repeatable.", metavar="<str>")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a reduced form, which takes minutes.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Run a reduced form, which takes seconds.")] = False,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Setting, such as encoder=DIR; repeatable.", metavar="name=value"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder (default: results/RECIPE).")] = None,
    data_root: DataRoot = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: one per core).", metavar="<int>", min=1)] = None,
    threads: Annotated[
        int,
        typer.Option(
            help="Threads per process (default: 1); affects the last digits of results.",
            metavar="<int>",
            min=1,
            show_default=False,
        ),
    ] = 1,
    ray: Annotated[str | None, typer.Option(help="Ray: auto, or the address of a cluster.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; replaces the recipe's device.")] = None,
    cache: Annotated[str | None, typer.Option(help="Folder for memory-mapped data.")] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Also write all results to OUT.tar.xz.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Also write a summary to OUT.summary.xz.")] = False,
    aa: Annotated[bool, typer.Option("--aa", help="A/A check: compare each row with itself.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Run finished cells again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Run all cells of a recipe: tune settings, choose the best, train with every seed, evaluate on test.

    After an interruption, the same command resumes; finished cells are not run again. If the folder OUT does not exist
    and the file OUT.tar.xz exists, the command resumes from this file. With --aa, no cells are run, and the results or
    OUT.summary.xz must exist.

    Example: `rankgrad experiment smoothi-table1 --only MQ2008 --quick`
    """
    from rankgrad.cli.argument_checks import pair, parse_value
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.terminal_text import screen
    from rankgrad.experiments import load_recipe
    from rankgrad.experiments.runs.results import PACKED, read_results, unpack
    from rankgrad.experiments.runs.results import pack as write_packed
    from rankgrad.experiments.runs.summary import SUMMARY, read_summary, write_summary
    from rankgrad.experiments.tables.table import table

    if quick and smoke:
        bad_value("form", "be --quick or --smoke", "both")
    if ray is not None and jobs is not None:
        bad_value("jobs", "not be given with --ray, because Ray chooses the number of processes", jobs)
    console = messages(as_json)
    form = "quick" if quick else "smoke" if smoke else None
    whole = load_recipe(recipe) if form is None else load_recipe(recipe).reduced(form)
    if others:
        whole = whole.with_settings(dict(pair("set", text, parse_value) for text in others))
    folder = out or Path("results") / (Path(recipe).stem + (f"-{form}" if form else ""))
    packed = folder.with_name(folder.name.removesuffix(PACKED) + PACKED)
    folder = folder.with_name(folder.name.removesuffix(PACKED))
    short = folder.with_name(folder.name + SUMMARY)
    if aa:
        for place in (folder, packed):
            if place.exists():
                write_summary(read_results(place, whole), short)
                break
        if not short.is_file():
            how = "run the experiment first, without --aa"
            bad_value(
                "out", f"contain the results of the experiment, or a summary ({how})", f"neither {folder} nor {short}"
            )
        wanted = whole.only(*only) if only else whole
        _print_aa(read_summary(short), [source.label for source in wanted.data], as_json)
        return
    part = _present(whole.only(*only) if only else whole, data_root)
    if packed.is_file() and not folder.exists():
        console.print(f"resuming from {packed}", markup=False)
        unpack(packed, folder)
    pool = _pool(ray, jobs, threads)
    failed = _run(console, whole, part, folder, pool, (data_root, device, cache), overwrite)
    results = read_results(folder)
    if summary:
        write_summary(results, short)
    made = [table(results, source.label) for source in part.data]
    if as_json:
        failures = {str(cell): error.strip().splitlines()[-1] for cell, error in failed}
        print_json({"results": folder, "tables": [each.to_dict() for each in made], "failed": failures})
    else:
        shown_tables = screen(highlight=False, soft_wrap=True)
        for each in made:
            shown_tables.print(each.rich(shown_tables.width))
    _print_failures(failed, folder)
    if pack:
        count = write_packed(folder, packed)
        console.print(f"packed:  {packed}, {count} results, {packed.stat().st_size / 1e6:.2f} MB", markup=False)
    if summary:
        console.print(f"summary: {short}, {short.stat().st_size / 1e6:.2f} MB", markup=False)
    console.print(f"results: {folder}", markup=False)
    console.print(f"next:    rankgrad report {shlex.quote(str(folder))} --out report.html", markup=False)
    if failed:
        raise typer.Exit(1)


def cores() -> int:
    """Return the number of cores that this process may use, for the default of `--jobs`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(ray: str | None, jobs: int | None, threads: int) -> Any:
    if ray is not None:
        from rankgrad.parallel.ray_pool import RayPool

        return RayPool(ray, threads)
    from rankgrad.parallel.process_pool import Pool

    return Pool(jobs or max(1, cores() // threads), threads)


def _present(recipe: "Recipe", root: str | None) -> "Recipe":
    """Return the recipe with the data sets that exist. For each missing data set, print the expected folder."""
    present, missing = recipe.available(root)
    if not present:
        raise MissingFile(*missing.values())
    for label, where in missing.items():
        typer.echo(shown(f"{label} is left out: {as_typed(where)}"), err=True)
    return recipe.only(*present) if missing else recipe


def _run(
    console: "Console",
    whole: "Recipe",
    part: "Recipe",
    folder: Path,
    pool: Any,
    where: tuple[str | None, ...],
    overwrite: bool,
) -> list[tuple[Any, str]]:
    """Run the unfinished cells of a recipe; return the cells that failed, with their errors."""
    from rankgrad.cli.progress import Progress
    from rankgrad.experiments.runs.run_recipe import lock_results, run_recipe

    tuning, final = len(part.cells_to_tune()), part.final_count
    console.print(f"{part.title}: {tuning} cells to tune and {final} final cells, {pool.jobs} at a time", markup=False)
    root, device, cache = where
    failed: list[tuple[Any, str]] = []
    warned: dict[str, None] = {}
    done = None
    try:
        with pool, lock_results(whole, folder), Progress("cells") as progress:
            if overwrite:
                _remove(part, folder)
            for step in run_recipe(part, folder, pool.run, root=root, device=device, cache=cache):
                done = f"{step.done - len(failed)} of {step.total} cells are done"
                progress.at(_line(step), step.done, step.total, failed=step.error is not None)
                if step.error is not None:
                    failed.append((step.cell, step.error))
                elif step.result is not None:
                    warned |= dict.fromkeys(step.result.warnings)
    except KeyboardInterrupt:
        typer.echo(f"\nStopped; {done or 'no new cell is done'}. {_again(overwrite)}", err=True)
        raise typer.Exit(130) from None
    for warning in warned:
        typer.echo(shown(f"warning: {warning}"), err=True)
    return failed


def _line(step: Any) -> str:
    if step.error is not None:
        return f"{step.cell}: failed, {step.error.strip().splitlines()[-1]}"
    found = step.result.test or step.result.validation
    name, value = next(iter(found.items()))
    return f"{step.cell}: {name} {value:.4f}, {step.result.seconds:.1f} s"


def _print_aa(summary: Any, labels: list[str], as_json: bool) -> None:
    """Print the A/A check: how often each test finds a false difference, per data set and over all data sets."""
    from dataclasses import asdict

    from rich.table import Table

    from rankgrad.cli.json_output import print_json
    from rankgrad.cli.terminal_text import screen
    from rankgrad.experiments.aa_check import LEVEL, SPLITS, aa_checks

    rows = [row for row in summary.rows if row.data in labels]
    by_data = {
        label: [row.values for row in rows if row.data == label] for label in dict.fromkeys(r.data for r in rows)
    }
    found = aa_checks(by_data)
    if not rows:
        typer.echo("A/A check: there is nothing to check, because no row has all its runs", err=True)
    if as_json:
        print_json({"metric": summary.metric, "checks": {label: asdict(check) for label, check in found.items()}})
        return
    table = Table(title=f"A/A check, {summary.metric}: share of equal pairs with p <= {LEVEL}")
    for head in ("data", "test", "real seeds", "cases", f"simulated ({SPLITS:,})", "95% interval"):
        table.add_column(head)
    for label, check in found.items():
        if not check.rows:
            table.add_row(label, "no row with at least four seeds")
        for test in check.real if check.rows else ():
            real, drawn = check.real[test], check.drawn[test]
            low, high = drawn.interval
            rates = f"{real.rate:.1%}", f"{real.cases:,}", f"{drawn.rate:.1%}", f"{low:.1%} to {high:.1%}"
            table.add_row(label, test, *rates)
        table.add_section()
    screen(highlight=False, soft_wrap=True).print(table)


def _again(overwrite: bool) -> str:
    if Path(sys.argv[0]).name == "rankgrad":
        return f"To resume: {shlex.join(['rankgrad', *(word for word in sys.argv[1:] if word != '--overwrite')])}"
    return f"To resume, run the same command again{' without --overwrite' if overwrite else ''}."


def _remove(recipe: "Recipe", folder: Path) -> None:
    """Remove the results of the recipe's cells. Results of other recipes and data sets stay."""
    from rankgrad.experiments.runs.results import read_results, result_file

    for found in read_results(folder, recipe).cells:
        path = result_file(found.cell, folder)
        path.unlink()
        path.with_suffix(".npz").unlink(missing_ok=True)


def _print_failures(failed: list[tuple[Any, str]], folder: Path) -> None:
    from rankgrad.experiments.runs.results import failure_file

    for cell, error in failed:
        why = error.strip().splitlines()[-1]
        typer.echo(shown(f"failed: {cell}: {why} ({failure_file(cell, folder)})"), err=True)
    if failed:
        typer.echo(f"{len(failed)} cells failed; the same command runs them again", err=True)
