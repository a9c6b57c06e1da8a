"""`rankgrad evaluate`: evaluates a saved model on labelled lists."""

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.missing_option import Missing
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.cli.terminal_tables import METRICS, print_metrics


@with_table_options
def evaluate(
    table: TableOptions,
    model: Annotated[Path, typer.Argument(help="Folder of a model, or model file of trees.")],
    data: Annotated[
        str | None, typer.Option(help="Data set name, folder, file or cache (default: the model's training data).")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="Fold number, for data sets with folds.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")] = None,
    split: Annotated[
        str | None, typer.Option(help="train, validation or test (default: test if it exists, or validation).")
    ] = None,
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="Metric, such as nDCG@10; repeatable.")] = METRICS,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each list.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    reliability: Annotated[Path | None, typer.Option(help="Also draw a reliability plot: .html, .svg or .png.")] = None,
    missing: Missing = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Compute metrics of a model on labelled lists, with intervals. Also print the conventions of each metric.

    For a calibrated model, also print the expected calibration error (ECE) of its probabilities.

    Example: `rankgrad evaluate runs/a --data MQ2008 --fold 1 -m nDCG@10 -m "AP(threshold=1)"`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.model_lists import check_source, read_parts
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.registry import saved_kind

    given = None if data is None else DataSource(data, fold, data_root, missing=missing, columns=table.columns())
    together(
        partial(saved_kind, model),
        partial(check_source, model, given, split),
        partial(named, metric),
        partial(check_device, device),
        *([] if reliability is None else [partial(check_chart_path, reliability, "reliability")]),
    )
    scorer = load_model(model, device)
    found = read_parts(scorer, model, given, split, table.regroup)
    lists = found.parts[found.chosen]
    with telling():
        if found.use == "trained":
            told = "the model was trained on these lists, so these values are higher than on new lists"
            warnings.warn(f"{told}: use --data with lists that the model has not seen", stacklevel=2)
    result = scorer.evaluate(lists, metric)
    measured = scorer.reliability(lists) if scorer.calibration or reliability else []
    if reliability is not None:
        from rankgrad.experiments.report.reliability_chart import SIGMOID, reliability_chart

        save_chart(reliability_chart({"calibrated" if scorer.calibration else SIGMOID: measured}), reliability)
    if as_json:
        from rankgrad.cli.json_output import print_json

        more = {"reliability": [event.to_dict() for event in measured]} if measured else {}
        print_json(result.to_dict(values=each) | more)
        return
    if each:
        for place, query in enumerate(result.queries or ()):
            for name, values in result.values.items():
                typer.echo(f"{name}	{query}	{values[place]:.4f}")
    print_metrics([*result.rows(), *(event.row() for event in measured)], result.notes())
    if reliability is not None:
        typer.echo(f"Wrote {reliability}.")
