"""`rankgrad measure`: evaluates a TREC run with qrels."""

from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.terminal_text import shown

DEFAULT = ["nDCG@10", "RR@10", "AP"]


def measure(
    run: Annotated[Path, typer.Argument(help="TREC run: query Q0 document rank score tag; plain or gzip.")],
    qrels: Annotated[Path, typer.Argument(help="Qrels: query iteration document label.")],
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="Metric, such as nDCG@10; repeatable.")] = DEFAULT,
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Also measure queries of the qrels that are not in the run.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each query.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    bootstrap: Annotated[int, typer.Option(help="Number of bootstrap samples for the interval.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
) -> None:
    """Evaluate a TREC run with a qrels file. Unlabelled documents are not relevant; ties are ordered by document id.

    The gain of nDCG is 2^label - 1. trec_eval's `ndcg_cut_10` is `nDCG(gain=linear)@10`.

    Example: `rankgrad measure run.txt qrels.txt -m "nDCG(gain=linear)@10" -m AP`
    """
    from rankgrad.cli.terminal_tables import print_metrics
    from rankgrad.metrics import measure_run, read_qrels, read_run

    result = measure_run(read_run(run), read_qrels(qrels), metric, complete=complete, bootstrap=bootstrap, seed=seed)
    if as_json:
        typer.echo(result.to_json(values=each))
        return
    if each:
        for place, query in enumerate(result.queries or ()):
            for name, values in result.values.items():
                typer.echo(f"{name}\t{shown(str(query))}\t{values[place]:.4f}")
    print_metrics(result.rows(), result.notes(), "queries")
