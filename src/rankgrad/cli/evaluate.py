"""`rankgrad evaluate`: evaluates a saved model on labelled lists."""

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.list_options import ListOptions, with_lists
from rankgrad.cli.option_groups import AsJson, Metrics, SavedModel
from rankgrad.cli.terminal_tables import METRICS, print_metrics


@with_lists
def evaluate(
    model: SavedModel,
    lists: ListOptions,
    metric: Metrics = METRICS,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each list.")] = False,
    as_json: AsJson = False,
    reliability: Annotated[Path | None, typer.Option(help="Also draw a reliability plot: .html, .svg or .png.")] = None,
) -> None:
    """Compute metrics of a model on labelled lists, with intervals. Also print the conventions of each metric.

    For a calibrated model, also print the expected calibration error (ECE) of its probabilities.

    Example: `rankgrad evaluate runs/a --data MQ2008 --fold 1 -m nDCG@10 -m "AP(threshold=1)"`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.metrics.evaluate import named

    lists.check(model, partial(named, metric), reliability and partial(check_chart_path, reliability, "reliability"))
    found = lists.read(model)
    scorer = found.model
    with telling():
        if found.use == "trained":
            told = "the model was trained on these lists, so these values are higher than on new lists"
            warnings.warn(f"{told}: use --data with lists that the model has not seen", stacklevel=2)
    result = scorer.evaluate(found.lists, metric)
    measured = scorer.reliability(found.lists) if scorer.calibration or reliability else []
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
