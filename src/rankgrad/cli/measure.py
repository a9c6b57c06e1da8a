"""`rankgrad measure`: evaluates a TREC run with qrels."""

from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.option_groups import AsJson, Metrics
from rankgrad.cli.terminal_text import shown
from rankgrad.errors import bad_value

DEFAULT = ["nDCG@10", "RR@10", "AP"]


def measure(
    run: Annotated[Path, typer.Argument(help="TREC run: query Q0 document rank score tag; plain or gzip.")],
    qrels: Annotated[Path, typer.Argument(help="Qrels: query iteration document label.")],
    metric: Metrics = DEFAULT,
    against: Annotated[
        list[Path], typer.Option(help="Another TREC run, which is compared with the first; repeatable.")
    ] = [],  # noqa: B006
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Also measure queries of the qrels that are not in the run.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each query.")] = False,
    as_json: AsJson = False,
    bootstrap: Annotated[int, typer.Option(help="Number of bootstrap samples for the interval.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
) -> None:
    """Evaluate a TREC run with a qrels file. Unlabelled documents are not relevant; ties are ordered by document id.

    The gain of nDCG is 2^label - 1. trec_eval's `ndcg_cut_10` is `nDCG(gain=linear)@10`.

    With `--against`, all queries of the qrels are measured. The differences have intervals and the p-values of paired
    t-tests.

    Example: `rankgrad measure run.txt qrels.txt -m "nDCG(gain=linear)@10" -m AP --against other.txt`
    """
    from rankgrad.cli.terminal_tables import print_metrics
    from rankgrad.metrics import measure_run, read_qrels, read_run

    if against:
        _compare([run, *against], qrels, metric, each, as_json, bootstrap, seed)
        return
    result = measure_run(read_run(run), read_qrels(qrels), metric, complete=complete, bootstrap=bootstrap, seed=seed)
    if as_json:
        typer.echo(result.to_json(values=each))
        return
    if each:
        for place, query in enumerate(result.queries or ()):
            for name, values in result.values.items():
                typer.echo(f"{name}\t{shown(str(query))}\t{values[place]:.4f}")
    print_metrics(result.rows(), result.notes(), "queries")


def _compare(
    paths: list[Path], qrels: Path, metrics: list[str], each: bool, as_json: bool, bootstrap: int, seed: int
) -> None:
    from rankgrad.cli.text.run_comparison import compare_text_runs, print_comparison
    from rankgrad.metrics import read_qrels, read_run

    if len(set(paths)) < len(paths):
        bad_value("against", "be other runs than the first", ", ".join(map(str, paths[1:])))
    found = compare_text_runs(
        {str(path): read_run(path) for path in paths}, read_qrels(qrels), metrics, bootstrap, seed
    )
    if as_json:
        from rankgrad.cli.json_output import print_json

        print_json(found.to_dict(values=each))
        return
    print_comparison(found)
