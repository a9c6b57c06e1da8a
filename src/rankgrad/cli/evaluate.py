"""`rankgrad evaluate`: evaluates a saved model on labelled lists."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.cli.terminal_tables import METRICS, print_metrics


@with_table_options
def evaluate(
    table: TableOptions,
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    data: Annotated[
        str | None, typer.Option(help="Data set name, folder, file or cache (default: the model's training data).")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Fold number, for data sets with folds.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    split: Annotated[
        str | None, typer.Option(help="train, validation or test (default: test, otherwise validation).")
    ] = None,
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="Metric, such as nDCG@10; repeatable.")] = METRICS,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each list.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    missing: Annotated[str | None, typer.Option(help="Number that replaces NaN and infinity, or 'error'.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Compute metrics of a model on labelled lists, with intervals. Also print the conventions of each metric.

    Example: `rankgrad evaluate runs/a --data MQ2008 --fold 1 -m nDCG@10 -m "AP(threshold=1)"`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import PARTS, DataSource, choose_split, telling
    from rankgrad.errors import bad_value, one_of
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.folder import read_config

    source = DataSource.kept(model)
    if data is not None:
        source = DataSource(data, fold, data_root, missing=missing, columns=table.columns(), regroup=table.regroup)
        source = source.with_options_of(model)

    def found() -> None:
        read_config(model)
        if source is None:
            bad_value("data", f"be given, because {model} does not record its training data", None)
        source.check(model if data is None else None)

    known = partial(one_of, "split", split or "test", PARTS)
    together(found, known, lambda: named(metric), lambda: check_device(device))
    assert source is not None
    scorer = load_model(model, device)
    with telling(f"reading {source.data}"):
        parts = source.hold_out(source.read(scorer))
        lists = parts[choose_split(source, parts, split, data is not None)]
    result = scorer.evaluate(lists, metric)
    if as_json:
        typer.echo(result.to_json(values=each))
        return
    if each:
        for place, query in enumerate(lists.qids):
            for name, values in result.values.items():
                typer.echo(f"{name}\t{query}\t{values[place]:.4f}")
    print_metrics(result.rows(), result.notes())
