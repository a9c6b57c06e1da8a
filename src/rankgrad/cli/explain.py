"""`rankgrad explain`: explains the order of two documents of one list, feature by feature."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.missing_option import Missing
from rankgrad.cli.shared_options import described
from rankgrad.cli.table_options import TableOptions, with_table_options


@with_table_options
def explain(
    table: TableOptions,
    model: Annotated[Path, typer.Argument(help="Folder of a model, or model file of trees.")],
    query: Annotated[str, typer.Option(help="Query id of the list (a value, not a column).")],
    documents: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Two document ids, or positions in the list from 1 (default: ranks 1 and 2).",
            metavar="A B",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data set name, folder, file or cache (default: the model's training data).")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Fold number, for data sets with folds.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    split: Annotated[
        str | None, typer.Option(help="train, validation or test (default: test if it exists, or validation).")
    ] = None,
    metric: Annotated[str, described("Metric", "nDCG@10", None, "--metric", "-m")] = "nDCG@10",
    top: Annotated[int, described("Number of features to print", "20")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also draw a chart: .html, .svg or .png.")] = None,
    missing: Missing = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Explain the score difference of two documents of a list: print the contribution of each feature.

    Example: `rankgrad explain runs/a --data MQ2008 --fold 1 --query 18219 --documents 3 1`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.explained_lists import check_top, print_bars
    from rankgrad.cli.model_lists import check_source, read_lists
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.experiments.report.importance_charts import explanation_chart
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.registry import saved_kind

    given = None if data is None else DataSource(data, fold, data_root, missing=missing, columns=table.columns())
    together(
        partial(saved_kind, model),
        partial(check_source, model, given, split),
        partial(named, [metric]),
        partial(check_device, device),
        partial(check_top, top),
        *([] if out is None else [partial(check_chart_path, out)]),
    )
    scorer = load_model(model, device)
    lists = read_lists(scorer, model, given, split, table.regroup)
    with telling("explaining the list"):
        found = scorer.explain(lists, query, documents, metric=metric)
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
