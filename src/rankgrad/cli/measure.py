"""`rankgrad measure`: a run against judgements, as trec_eval measures it."""

from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.terminal_text import shown

DEFAULT = ["nDCG@10", "RR@10", "AP"]


def measure(
    run: Annotated[Path, typer.Argument(help="Run: query Q0 document rank score tag; plain or gzip.")],
    qrels: Annotated[Path, typer.Argument(help="Judgements: query iteration document label.")],
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="A metric, by its text; repeatable.")] = DEFAULT,
    complete: Annotated[
        bool, typer.Option("--complete", "-c", help="Judged queries not in the run count too.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", "-q", help="The value of each query, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    bootstrap: Annotated[int, typer.Option(help="Resamples of the queries for the interval.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
) -> None:
    """Measure a run file against judgements, as trec_eval does.

    Documents without a judgement count as not relevant, ties go by document id. `rankgrad list metrics` names all.

    Example: `rankgrad measure run.txt qrels.txt -m nDCG@10 -m "AP(threshold=1)"`
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
