"""`rankgrad report`: writes the results of experiments as a page, tables and figures."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        Path,
        typer.Argument(
            help="Results folder of `rankgrad experiment`, a folder of such folders, or a packed file (.tar.xz)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    recipe: Annotated[
        list[Path] | None, typer.Option(help="Recipe of the results; repeatable.", metavar="<path>")
    ] = None,
    tables: Annotated[Path | None, typer.Option(help="Folder for tables in Markdown and LaTeX.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for figures as SVG and PNG.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    lists: Annotated[bool, typer.Option(help="Show ranked lists in the query explorer; needs the data.")] = True,
) -> None:
    """Write one HTML page that works offline: tables, learning curves, cost, sensitivity, and a query explorer.

    The page contains labels and ids of documents; with `--no-lists`, the page contains neither.

    Example: `rankgrad report results/learndcg-table2 --out report.html --tables tables`
    """
    from importlib.util import find_spec

    from rankgrad.cli.data_source import telling
    from rankgrad.cli.terminal_text import screen

    for module, package in (("altair", "altair"), ("vl_convert", "vl-convert-python")):
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"report needs {package}, which is not installed: pip install 'rankgrad[report]'")
    from rankgrad.experiments import load_recipe
    from rankgrad.experiments.report import writer as reports

    console = screen()
    with telling(f"reading {results}"):
        studies = reports.gather(results, recipes=[*map(load_recipe, recipe or ())], root=data_root, lists=lists)
    for study in studies:
        for warning in study.warnings:
            console.print(f"{study.name}: {warning}", style="yellow", markup=False, highlight=False)
        for why in dict.fromkeys(found["why"] for found in study.explorers.values() if lists and found["why"]):
            console.print(f"{study.name}: no ranked lists. {why}", style="yellow", markup=False, highlight=False)
    page = reports.write_page(studies, out)
    console.print(
        f"page:    {page} ({page.stat().st_size / 1e6:.1f} MB)", markup=False, highlight=False, soft_wrap=True
    )
    if tables is not None:
        _print_files(console, "tables", tables, len(reports.write_tables(studies, tables)))
    if figures is not None:
        _print_files(console, "figures", figures, len(reports.write_figures(studies, figures)))


def _print_files(console: object, what: str, folder: Path, files: int) -> None:
    console.print(f"{what + ':':8} {folder} ({files} files)", markup=False, highlight=False, soft_wrap=True)  # type: ignore[attr-defined]
