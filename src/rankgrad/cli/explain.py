"""`rankgrad explain`: explains the order of two documents of one list, feature by feature."""

from functools import partial
from typing import Annotated

import typer

from rankgrad.cli.list_options import ListOptions, with_lists
from rankgrad.cli.option_groups import AsJson, Chart, SavedModel
from rankgrad.cli.shared_options import described


@with_lists
def explain(
    model: SavedModel,
    query: Annotated[str, typer.Option(help="Query id of the list (a value, not a column).")],
    lists: ListOptions,
    documents: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Two document ids, or positions in the list from 1 (default: ranks 1 and 2).",
            metavar="A B",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[str, described("Metric", "nDCG@10", None, "--metric", "-m")] = "nDCG@10",
    top: Annotated[int, described("Number of features to print", "20")] = 20,
    as_json: AsJson = False,
    out: Chart = None,
) -> None:
    """Explain the score difference of two documents of a list: print the contribution of each feature.

    Example: `rankgrad explain runs/a --data MQ2008 --fold 1 --query 18219 --documents 3 1`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.explained_lists import check_top, print_bars
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.experiments.report.importance_charts import explanation_chart
    from rankgrad.metrics.evaluate import named

    lists.check(model, partial(named, [metric]), partial(check_top, top), out and partial(check_chart_path, out))
    read = lists.read(model)
    with telling("explaining the list"):
        found = read.model.explain(read.lists, query, documents, metric=metric)
    if out is not None:
        save_chart(explanation_chart(found, top), out)
    if as_json:
        from rankgrad.cli.json_output import print_json

        print_json(found.to_dict(top))
        return
    typer.echo("\n".join(found.header()))
    columns, *rows = found.rows(top)
    print_bars(columns, rows, [part for _, part in found.terms(top)])
    typer.echo("\n".join(found.footer()))
    if out is not None:
        typer.echo(f"Wrote {out}.")
