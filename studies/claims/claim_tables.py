"""Compute the numbers of the page about the papers' claims: `python studies/claims/claim_tables.py`.

First, results `claims-*.tar.xz` in this folder (or folders of results of the same names), if present, become small
summaries, one per metric of a claim: `claims-lambdaloss` becomes `lambdaloss-nDCG.summary.xz`. Then `results.json` is
computed from the summaries. `python studies/build.py claims` makes the page from this file.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from claim_list import SETS, Claim, Comparison, Row, claims

from rankgrad.experiments import load_recipe
from rankgrad.experiments.runs.results import PACKED, read_results
from rankgrad.experiments.runs.summary import SUMMARY, RowSummary, Summary, read_summary, write_summary
from rankgrad.experiments.seed_variance import RunValues, compare_runs

STUDIES = Path(__file__).parent
TABLE = STUDIES / "results.json"
LEADERBOARD = STUDIES.parents[1] / "docs" / "studies" / f"leaderboard{SUMMARY}"  # for nDCG@10


def main() -> None:
    every = claims()
    for study, metrics in sorted(studied(every).items()):
        write_summaries(STUDIES, study, metrics)
    TABLE.write_text(json.dumps(numbers(STUDIES, every), indent=1) + "\n")


def studied(every: Sequence[Claim]) -> dict[str, list[str]]:
    """Return the metrics of each study of which the claims need values per query."""
    found: dict[str, dict[str, None]] = {}
    for claim in every:
        for comparison in claim.comparisons:
            for row in comparison.rows:
                found.setdefault(row.study, {})[comparison.metric] = None
    return {study: list(metrics) for study, metrics in found.items()}


def summary_file(folder: Path, study: str, metric: str) -> Path:
    """Return the path of the summary of a study for one metric; its name has no options of the metric."""
    if study == "leaderboard":
        return LEADERBOARD
    return folder / f"{study.removeprefix('claims-')}-{re.sub(r'[(].*[)]', '', metric)}{SUMMARY}"


def write_summaries(folder: Path, study: str, metrics: Sequence[str]) -> None:
    """Write the summaries of a study from its results, if there are any."""
    for source in (folder / study, folder / f"{study}{PACKED}"):
        if source.exists():
            results = read_results(source, load_recipe(study))
            assert results.recipe is not None
            for metric in metrics:
                others = [each for each in results.recipe.metrics if each != metric]
                first = replace(results, recipe=replace(results.recipe, metrics=(metric, *others)))
                path = summary_file(folder, study, metric)
                rows = write_summary(first, path)
                print(f"{path.name}: {rows} rows, {len(results.missing)} runs missing, {path.stat().st_size:,} bytes")
            return


def numbers(folder: Path, every: Sequence[Claim]) -> dict[str, Any]:
    """Return the comparisons of all claims, the means of all rows, and facts about the runs."""
    known = {
        (study, metric): read_summary(path)
        for study, metrics in studied(every).items()
        for metric in metrics
        if (path := summary_file(folder, study, metric)).is_file()
    }
    compared = {claim.key: [_compared(each, known) for each in claim.comparisons] for claim in every}
    firsts: dict[str, Summary] = {}
    for (study, _), summary in known.items():
        firsts.setdefault(study, summary)
    return {
        "claims": compared,
        "studies": {study: _facts(summary) for study, summary in firsts.items()},
    }


def _facts(summary: Summary) -> dict[str, Any]:
    known = {name: getattr(summary, name) for name in ("runs", "missing", "seconds", "commits", "machines")}
    return {**known, "rows": [_means(row) for row in summary.rows if row.data.removesuffix("-b") in SETS]}


def _means(row: RowSummary) -> dict[str, Any]:
    means = {metric: float(f"{_over_queries(row, values):.6g}") for metric, values in row.means.items()}
    names = {name: getattr(row, name) for name in ("data", "model", "loss", "trials", "seconds")}
    return {**names, "seeds": row.values.seeds, "means": means}


def _over_queries(row: RowSummary, values: Any) -> float:
    """Return the mean over queries from the means of folds and seeds; a query that is skipped does not count."""
    folds = np.unique(row.values.folds[row.values.used], return_counts=True)[1]
    return float(np.average(values.mean(axis=1), weights=folds))


def _compared(comparison: Comparison, known: dict[tuple[str, str], Summary]) -> dict[str, Any] | None:
    """Return the numbers of a comparison, or None if one of its rows has not run completely."""
    found: dict[Row, RunValues] = {}
    for row in comparison.rows:
        summary = known.get((row.study, comparison.metric))
        rows = () if summary is None else summary.rows
        fitting = [each for each in rows if (each.data, each.model, each.loss) == (row.data, row.model, row.loss)]
        if not fitting:
            return None
        found[row] = fitting[0].values
    better, worse = (_side([found[row] for row in rows]) for rows in (comparison.better, comparison.worse))
    test = compare_runs(better, worse)
    return {
        "means": [better.mean, worse.mean],
        "difference": test.difference,
        "error": test.error,
        "freedom": test.freedom,
        "interval": list(test.interval),
        "p": test.p,
        "detectable": test.detectable,
        "seeds": list(test.seeds),
        "queries": test.queries,
    }


def _side(rows: list[RunValues]) -> RunValues:
    """Return the values of a row, or the difference of two rows; runs are paired in the order of their seeds."""
    if len(rows) == 1:
        return rows[0]
    first, second = rows
    seeds = min(first.seeds, second.seeds)
    return RunValues(first.values[:seeds] - second.values[:seeds], first.folds)


if __name__ == "__main__":
    main()
