"""Summarise the results of the recipes: `python studies/learndcg-questions/study_tables.py`.

`rankgrad experiment RECIPE --out studies/learndcg-questions/results --pack` writes `results.tar.xz`. This script writes
the table of each recipe, with tests and intervals, to `rq1.json` and so on, and the pictures of the page.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rankgrad.experiments import load_recipe
from rankgrad.experiments.report import charts
from rankgrad.experiments.report.chart_data import trained_seconds
from rankgrad.experiments.report.study import study
from rankgrad.experiments.runs.results import Results, pack, read_results, unpack
from rankgrad.experiments.tables.table import tables

HERE = Path(__file__).parent
# A packed file may contain the cells of several recipes.
STUDIES = {
    "results": ("learndcg-rq1", "learndcg-rq2", "learndcg-rq3", "learndcg-rq4", "learndcg-rq5"),
    "rate": ("learndcg-rate",),
}
LARGEST = 1_000_000  # bytes of a packed study in the repository


def main() -> None:
    for name, recipes in STUDIES.items():
        packed = HERE / f"{name}.tar.xz"
        if packed.exists():
            known = {recipe: read_results(packed, load_recipe(recipe)) for recipe in recipes}
            every = {run.cell.key: run for results in known.values() for run in results.cells}
            for recipe, results in known.items():
                found = summary(results) | {"packed": spent([*every.values()])}
                text = json.dumps(found, indent=1)
                (HERE / f"{recipe.removeprefix('learndcg-')}.json").write_text(text + "\n")
                print(f"{recipe}: {found['final runs']} final runs, {found['missing']} missing")
            if name == "results":
                figures(known)
            if packed.stat().st_size > LARGEST:
                shrink(packed)


def shrink(packed: Path) -> None:
    """Pack a study again without the learning curves of all but the first seed, so that it is small enough for git."""
    with TemporaryDirectory() as folder:
        unpack(packed, folder)
        pack(folder, packed, history=False)
    print(f"{packed.name}: {packed.stat().st_size / 1e6:.2f} MB")


def figures(known: dict[str, Results]) -> None:
    """Draw the pictures of the findings on LearnDCG: its scalars per fold, and quality against cost."""
    for recipe, model, charts_of in (
        ("learndcg-rq1", "MLP", ("learned-gain_base", "learned-discount_base", "learned-alpha")),
        ("learndcg-rq4", "Context-Aware Ranker", ("cost",)),
    ):
        shown = study(known[recipe], recipe, lists=False)
        for panel in shown.panels():
            if panel.chart in charts_of:
                rows = [row for row in shown.rows[panel.rows] if row["model"] == model and row.get("seed", 0) == 0]
                stem = HERE / panel.chart.removeprefix("learned-")
                charts.save(panel.draw(replace(shown.choice(model=model), rows=tuple(rows))), stem)
                stem.with_suffix(".png").unlink()
                drawn = stem.with_suffix(".svg").read_text()  # this row is mostly MSE, see the page
                stem.with_suffix(".svg").write_text(drawn.replace(">RMSE<", ">MSE or RMSE<"))


def summary(results: Results) -> dict[str, Any]:
    """Return the tables of a study, its number of runs and their cost."""
    runs, recipe = results.cells, results.recipe
    assert recipe is not None
    return {
        "title": recipe.title,
        "tuning runs": len(results.tuned()),
        "final runs": len(results.final()),
        "missing": len(results.missing),
        **spent(runs),
        "commits": _counted(run.commit for run in runs),
        "versions": _counted(", ".join(f"{name} {value}" for name, value in run.versions.items()) for run in runs),
        "against": recipe.tests.against,
        "tables": [_table(table, results) for table in tables(results)],
    }


def spent(runs: list[Any]) -> dict[str, Any]:
    """Return the number of runs, their hours and their machines."""
    hours = round(sum(run.seconds for run in runs) / 3600, 2)
    return {"runs": len(runs), "hours": hours, "machines": _counted(run.machine for run in runs)}


def _table(table: Any, results: Results) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    recipe = results.recipe
    assert recipe is not None
    for row in table.rows:
        where = table.data, row.model, row.loss
        runs = [run for run in results.final() if (run.cell.label, run.cell.model, run.cell.loss) == where]
        entries = {metric: _entry(entry) for metric, entry in row.entries.items() if entry.mean is not None}
        searched = recipe.models[row.model].searched(recipe.search) if runs else ()
        if runs:
            # Small packed studies have the learning curves of the first seed only.
            first = [run for run in runs if run.cell.seed == table.seeds[0]]
            rows.append(
                {
                    "model": row.model,
                    "loss": row.loss,
                    "entries": entries,
                    "trials": [trial * max(1, len(row.variants)) for trial in row.trials],
                    "variants": dict.fromkeys(row.variants, 0) | _counted(row.chosen),
                    "effective": row.effective,
                    "chosen": _counted(
                        _setting(run, searched) for run in runs if run.cell.settings.get("seed") == table.seeds[0]
                    ),
                    "seconds": round(float(np.mean([trained_seconds(run) for run in first])), 3),
                    "epochs": round(float(np.mean([len(run.history) for run in first])), 1),
                    "learned": _learned(runs),
                }
            )
    known = {"data": table.data, "metrics": list(table.metrics), "folds": len(table.folds), "seeds": len(table.seeds)}
    return {**known, "rows": rows, "notes": list(table.notes)}


def _entry(entry: Any) -> dict[str, Any]:
    def digits(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.6g}")

    interval = None if entry.interval is None else [digits(end) for end in entry.interval]
    names = ("mean", "spread", "difference", "p", "adjusted", "detectable")
    known = {name: digits(getattr(entry, name)) for name in names}
    return {**known, "interval": interval, "best": entry.best, "runs": entry.runs, "wanted": entry.wanted}


def _setting(run: Any, searched: Iterable[str]) -> str:
    drawn = [f"{name} {run.cell.settings[name]:g}" for name in searched]
    return ", ".join([*([run.cell.variant] if run.cell.variant else []), *drawn])


def _learned(runs: list[Any]) -> dict[str, list[float]]:
    """Return the minimum, mean and maximum over the runs, for each parameter of the loss."""
    names = runs[0].learned if runs else {}
    values = {name: [run.learned[name] for run in runs] for name in names}
    return {name: [round(float(f(numbers)), 4) for f in (np.min, np.mean, np.max)] for name, numbers in values.items()}


def _counted(values: Any) -> dict[str, int]:
    return dict(Counter(values).most_common())


if __name__ == "__main__":
    main()
