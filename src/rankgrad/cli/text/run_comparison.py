"""Measure several runs as trec_eval does, and compare each run with the first run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from rankgrad.metrics.evaluate import Evaluation
    from rankgrad.metrics.trec import Qrels, Run


@dataclass(frozen=True)
class RunTest:
    """Paired test that compares a run with the first run, for one metric."""

    run: str
    metric: str
    difference: float  # mean of this run minus mean of the first run
    interval: tuple[float, float]  # 95% interval of the difference
    p: float  # p-value of the paired t-test
    holm: float  # p-value with Holm's correction for the number of runs


@dataclass(frozen=True)
class TextRunComparison:
    """Metrics of several runs on the same queries."""

    results: dict[str, "Evaluation"]
    tests: tuple[RunTest, ...]
    queries: int

    def to_dict(self, values: bool = False) -> dict[str, Any]:
        """Return the comparison as JSON values; with `values`, also the value of each query."""
        import json

        runs = {name: json.loads(found.to_json(values=values)) for name, found in self.results.items()}
        return {"queries": self.queries, "runs": runs, "tests": [asdict(test) for test in self.tests]}


def compare_text_runs(
    runs: Mapping[str, "Run"], qrels: "Qrels", metrics: Sequence[str], bootstrap: int = 1000, seed: int = 0
) -> TextRunComparison:
    """Measure and compare runs on all queries of the qrels. If a run does not contain a query, the value is 0."""
    from rankgrad.experiments import statistics
    from rankgrad.metrics import measure_run

    options: dict[str, Any] = {"complete": True, "bootstrap": bootstrap, "seed": seed}
    results = {name: measure_run(run, qrels, metrics, **options) for name, run in runs.items()}
    first, *others = results
    tests = []
    for metric in results[first]:
        base = results[first].values[metric]
        found = [statistics.paired_t(results[name].values[metric], base) for name in others]
        adjusted = statistics.holm([each.p for each in found]).tolist()
        for name, each, holm in zip(others, found, adjusted, strict=True):
            apart = statistics.differences(results[name].values[metric], base)
            interval = statistics.bootstrap(apart, rounds=max(1, bootstrap), seed=seed)
            tests.append(RunTest(name, metric, each.difference, interval, each.p, holm))
    return TextRunComparison(results, tuple(tests), results[first].lists)


def print_comparison(found: TextRunComparison, console: "Console | None" = None) -> None:
    """Print the metrics of one run with intervals, or of several runs with their tests."""
    from rankgrad.cli.terminal_tables import print_metrics, print_names
    from rankgrad.metrics.few_lists import note_about

    first, *others = found.results
    if not others:
        print_metrics(found.results[first].rows(), found.results[first].notes(), "queries", console)
        return
    metrics = [*found.results[first]]
    rows = [(name, *(f"{each[metric]:.4f}" for metric in metrics)) for name, each in found.results.items()]
    print_names(("run", *metrics), rows, (), console)
    tests = []
    for each in found.tests:
        interval = "[{:+.3f}, {:+.3f}]".format(*each.interval)
        tests.append((each.metric, each.run, f"{each.difference:+.4f}", interval, _p(each.p), _p(each.holm)))
    number = f"{len(others)} comparison{'s' if len(others) > 1 else ''}"
    note = f"change from {first} on {found.queries:,} queries; paired t-test; Holm's correction for {number}"
    gains = [
        f"{metric}: gain {found.results[first].conventions[metric]['gain']}" for metric in metrics if "DCG" in metric
    ]
    notes = [f"{note} per metric", *filter(None, [", ".join(gains), note_about([found.queries])])]
    print_names(("metric", "run", "change", "95% interval", "p", "p (Holm)"), tests, notes, console)


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"
