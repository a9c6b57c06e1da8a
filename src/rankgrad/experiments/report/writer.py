"""Write reports of experiments: a page for readers, tables for papers, figures for slides."""

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from rankgrad.atomic_files import naming, write_bytes, writing_output
from rankgrad.errors import bad_value
from rankgrad.experiments.recipes.recipe import Recipe
from rankgrad.experiments.report import charts
from rankgrad.experiments.report.page import page
from rankgrad.experiments.report.page_content import Study
from rankgrad.experiments.report.study import study
from rankgrad.experiments.runs.results import CELLS, PACKED, RECIPE, read_results

QUERIES = 1_200_000  # maximum number of characters of all query explorers of a page together


def find_results(path: str | os.PathLike[str]) -> list[Path]:
    """Return the path itself if it contains results, otherwise the results folders and packed files in the folder.

    Example:
        >>> find_results("no/such/results")
        Traceback (most recent call last):
        ValueError: results must be a results folder of `rankgrad experiment`, ...; got no/such/results
    """
    path = Path(path)
    if has_results(path):
        return [path]
    found = sorted(filter(has_results, path.iterdir())) if path.is_dir() else []
    if not found:
        kinds = f"a folder that contains results folders, or a packed file ({PACKED})"
        bad_value("results", f"be a results folder of `rankgrad experiment`, {kinds}", path)
    return found


def gather(
    path: str | os.PathLike[str], *, recipes: Sequence[Recipe] = (), root: Any = None, lists: bool = True
) -> list[Study]:
    """Gather the studies of a report from the results in a folder.

    Args:
        path: path of results, as for `find_results`.
        recipes: recipes to use instead of the recipe in the results; there is one study per recipe and results folder.
        root: folder of the data sets, for the labels of the documents; None: the default of `rankgrad.data.load`.
        lists: if False, the page has no ranked lists.
    """
    by: Sequence[Recipe | None] = recipes or [None]
    asked = list(product(find_results(path), by))
    studies = []
    for place, recipe in asked:
        results = read_results(place, recipe)
        if results.recipe is None:
            bad_value(str(place), f"contain {RECIPE}, the recipe of the run", "none")
        if recipe is not None and not results.final():
            bad_value("recipe", f"have a finished final run in {place}", f"the recipe {recipe.name}")
        if results.final():
            name = place.name.removesuffix(PACKED)
            if recipe is not None:
                name = f"{name}-{recipe.name}" if len(asked) > len(recipes) else recipe.name
            studies.append(study(results, name, root=root, lists=lists, limit=QUERIES // len(asked)))
    if not studies:
        bad_value("results", "contain at least one finished final run", f"none in {path}")
    return studies


def write_page(studies: Sequence[Study], out: str | os.PathLike[str]) -> Path:
    """Write the page of a report: one HTML file that contains everything."""
    out = Path(out)
    with writing_output(out) as file, naming(out):
        file.write(page(studies).encode())
    return out


def write_tables(studies: Sequence[Study], folder: str | os.PathLike[str]) -> list[Path]:
    r"""Write the tables of each study as Markdown, `<study>.md`, and as LaTeX, `<study>.tex`.

    The LaTeX is for `\input` in a document with `\usepackage{booktabs}`; a table larger than a page is split.
    """
    written = []
    for one in studies:
        for ending, texts in (("md", [t.markdown() for t in one.tables]), ("tex", [t.latex() for t in one.tables])):
            path = Path(folder) / f"{one.name}.{ending}"
            write_bytes(path, ("\n\n".join(text.strip() for text in texts) + "\n").encode())
            written.append(path)
    return written


def write_figures(studies: Sequence[Study], folder: str | os.PathLike[str]) -> list[Path]:
    """Write each chart for each data set and model as SVG and PNG, `<study>-<chart>-<data>-<model>.svg`.

    If a chart shows all models, its file name contains no model.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for one in studies:
        for panel, data, model in product(one.panels(), one.data, one.models):
            if panel.every_model and model != one.models[0]:
                continue
            rows = [row for row in one.rows[panel.rows] if row["data"] == data]
            if not panel.every_model:
                rows = [row for row in rows if row["model"] == model]
            if panel.rows == "learned":
                rows = [row for row in rows if panel.chart == f"learned-{row['parameter']}"]
            if rows:
                named = () if panel.every_model or len(one.models) == 1 else (model,)
                stem = Path(folder) / _file_name(one.name, panel.chart, data, *named)
                charts.save(panel.draw(replace(one.choice(data, model), rows=tuple(rows))), stem)
                written += [Path(f"{stem}.{ending}") for ending in ("svg", "png")]
    return written


def has_results(path: Path) -> bool:
    """Return True if the path is a results folder of an experiment, or a packed file."""
    return (path / CELLS).is_dir() or (path.is_file() and path.name.endswith(PACKED))


def _file_name(*parts: str) -> str:
    text = "-".join(parts).lower()
    return "-".join("".join(c if c.isalnum() or c in "._" else " " for c in text).split())
