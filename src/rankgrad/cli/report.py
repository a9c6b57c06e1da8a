"""`rankgrad report`: writes the results of experiments, and of runs of `train`, `tune` and `auto`, as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.errors import bad_value, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankgrad.data import Dataset
    from rankgrad.experiments import Recipe
    from rankgrad.experiments.report.page_content import Study


def report(
    results: Annotated[
        Path,
        typer.Argument(help="Results of an experiment (folder or .tar.xz), folder of a run, or folder with several."),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    recipe: Annotated[
        list[Path] | None, typer.Option(help="Recipe of the results; repeatable.", metavar="<path>")
    ] = None,
    tables: Annotated[Path | None, typer.Option(help="Folder for Markdown and LaTeX tables.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for figures as SVG and PNG.")] = None,
    data: Annotated[str | None, typer.Option(help="Other test lists, for runs.", metavar="<str>")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    lists: Annotated[bool, typer.Option(help="Show ranked lists (needs the data).")] = True,
) -> None:
    """Write one HTML page that works offline: summary, overview, tables, learning curves, and a query explorer.

    The page contains labels and ids of documents, and the beginnings of texts. With `--no-lists`, the
    page contains none of these.

    Example: `rankgrad report results/leaderboard --out page.html --tables t`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.terminal_text import screen

    check_packages("report")
    from rankgrad.experiments import load_recipe
    from rankgrad.experiments.report import writer

    console = screen()
    with telling(f"reading {results}"):
        studies = _studies(results, [*map(load_recipe, recipe or ())], data_root, lists, data)
    for study in studies:
        for warning in study.warnings:
            console.print(f"{study.name}: {warning}", style="yellow", markup=False, highlight=False)
        for why in dict.fromkeys(found["why"] for found in study.explorers.values() if lists and found["why"]):
            console.print(f"{study.name}: no ranked lists. {why}", style="yellow", markup=False, highlight=False)
    page = writer.write_page(studies, out)
    console.print(
        f"page:    {page} ({page.stat().st_size / 1e6:.1f} MB)", markup=False, highlight=False, soft_wrap=True
    )
    if tables is not None:
        _print_files(console, "tables", tables, len(writer.write_tables(studies, tables)))
    if figures is not None:
        _print_files(console, "figures", figures, len(writer.write_figures(studies, figures)))


def check_packages(command: str) -> None:
    """Raise an error if a package that draws the charts of a report is not installed."""
    from importlib.util import find_spec

    for module, package in (("altair", "altair"), ("vl_convert", "vl-convert-python")):
        if find_spec(module) is None:
            raise ModuleNotFoundError(
                f"{command} needs {package}, which is not installed: pip install 'rankgrad[report]'"
            )


def _studies(
    path: Path, recipes: "Sequence[Recipe]", root: Path | None, lists: bool, given: str | None = None
) -> "list[Study]":
    """Return the studies of the report, from the folder of an experiment or run, or a folder with several of these."""
    from rankgrad.experiments.report import writer

    inside = sorted(path.iterdir()) if path.is_dir() and not _is_run(path) and not writer.has_results(path) else []
    runs = [folder for folder in [path, *inside] if _is_run(folder)]
    experiments = [each for each in [path, *inside] if writer.has_results(each)]
    if not runs and not experiments:
        kinds = "of an experiment, the folder of a run (train, tune, auto), a folder with several of these"
        bad_value("results", f"be the folder {kinds}, or a packed file (.tar.xz)", path)
    if recipes and not experiments:
        bad_value("recipe", f"be given only for experiments, and {path} contains no experiment", recipes[0].name)
    if given is not None and (experiments or any(_search_file(folder).is_file() for folder in runs)):
        bad_value("data", "be given only for runs of train and auto", given)
    found = [_run_study(folder, root, lists, given) for folder in runs]
    if experiments:
        found += writer.gather(path, recipes=recipes, root=root, lists=lists)
    return found


def _is_run(folder: Path) -> bool:
    from rankgrad.cli.training_run import RUN
    from rankgrad.models.folder import CONFIG

    return any(file.is_file() for file in (folder / CONFIG, folder / RUN, _search_file(folder), _auto_file(folder)))


def _auto_file(folder: Path) -> Path:
    from rankgrad.cli.auto import SEARCH

    return folder / SEARCH / "search.json"


def _search_file(folder: Path) -> Path:
    from rankgrad.cli.tune import TRIALS

    return folder / TRIALS / "search.json"


def _run_study(folder: Path, root: Path | None, lists: bool, given: str | None = None) -> "Study":
    """Return the study of a training run, a tuning run or an automatic search."""
    from rankgrad.atomic_files import read_json
    from rankgrad.cli.terminal_tables import METRICS
    from rankgrad.experiments.report.auto_study import auto_study
    from rankgrad.experiments.report.training_study import training_study
    from rankgrad.experiments.report.tuning_study import tuning_study

    search = read_json(_search_file(folder)) if _search_file(folder).is_file() else None
    data, parts, warnings = _lists_of(folder, search, root)
    if given is not None:
        data, parts = f"{data}; tested on {Path(given).name}", {**parts, "test": _test_lists(folder, given, root)}
    if _auto_file(folder).is_file():
        where = _auto_file(folder).parent
        return auto_study(folder, where, data, parts, METRICS, warnings=warnings, lists=lists)
    if search is None:
        named = _first_stage(folder) if parts else ""
        return training_study(folder, data, parts, METRICS, warnings=warnings, lists=lists, first_stage=named)
    record = {name: value for name, value in search.items() if name != "sha256"}
    return tuning_study(folder, record, data, parts, METRICS, warnings=warnings, lists=lists)


def _first_stage(folder: Path) -> str:
    """Return the name of the run that the text ranker of a training run re-ranks."""
    from rankgrad.cli.text.training_lists import KEPT, TextLists

    run = TextLists.kept(folder).candidate_run if (folder / KEPT).is_file() else None
    return "BM25" if run is None else f"run {run.name}"


def _test_lists(folder: Path, data: str, root: Path | None) -> "Dataset":
    """Read the lists of `--data` on which the model of a run is tested."""
    from rankgrad.cli.data_source import DataSource
    from rankgrad.models.registry import load

    source = DataSource(data, root=None if root is None else str(root)).with_options_of(folder)
    source.check()
    parts = source.read(load(folder))
    return parts.get("test", parts["train"])


def _lists_of(
    folder: Path, search: dict[str, Any] | None, root: Path | None
) -> "tuple[str, dict[str, Dataset], list[str]]":
    """Return the lists of a run for the report, the name of the data, and a warning if the lists cannot be read."""
    from dataclasses import replace

    from rankgrad.cli.data_source import DataSource
    from rankgrad.cli.text.training_lists import KEPT, TextLists
    from rankgrad.data.loading import data_label

    needed = "Intervals, baselines and queries are left out."
    if (folder / KEPT).is_file():
        try:
            return TextLists.kept(folder).named_parts()
        except (OSError, ValueError) as error:
            return "text", {}, [f"The collection was not read: {first_line(error)}. {needed}"]
    source = DataSource.kept(folder)
    if source is None and search is not None:  # the search has not ended
        source = DataSource.from_json(search["data"], _search_file(folder))
    if source is None:
        return "unknown data", {}, [f"The folder does not record its data. {needed}"]
    name = Path(source.data).name if Path(source.data).exists() else data_label(source.data)
    name = f"{name}, fold {source.fold}" if source.fold is not None else name
    try:
        source = source if root is None else replace(source, root=str(root))
        return name, source.hold_out(source.read()), []
    except (OSError, ValueError) as error:
        return name, {}, [f"The data was not read: {first_line(error)}. {needed}"]


def _print_files(console: object, what: str, folder: Path, files: int) -> None:
    console.print(f"{what + ':':8} {folder} ({files} files)", markup=False, highlight=False, soft_wrap=True)  # type: ignore[attr-defined]
