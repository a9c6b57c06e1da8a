"""`rankgrad importance`: measures how much a saved model depends on each feature."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.cli.missing_option import Missing
from rankgrad.cli.shared_options import described
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.errors import one_of


@with_table_options
def importance(
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
    metric: Annotated[str, described("Metric", "nDCG@10", None, "--metric", "-m")] = "nDCG@10",
    method: Annotated[
        str, described("permutation, gain or split (trees), gradient (neural rankers)", "permutation")
    ] = "permutation",
    repeats: Annotated[int, described("Number of shuffles per feature", "5")] = 5,
    within_lists: Annotated[bool, typer.Option("--within-lists", help="Shuffle within each list only.")] = False,
    seed: Annotated[int, described("Random seed of the shuffles", "0")] = 0,
    top: Annotated[int, described("Number of features to print", "20")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also draw a chart: .html, .svg or .png.")] = None,
    missing: Missing = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Measure the importance of each feature: the decrease of a metric if the feature is shuffled, with intervals.

    Example: `rankgrad importance runs/a --data MQ2008 --fold 1 --out importance.html`
    """
    from rankgrad.cli.argument_checks import check_device, load_model, together
    from rankgrad.cli.data_source import DataSource, telling
    from rankgrad.cli.explained_lists import check_top
    from rankgrad.cli.model_lists import check_source, read_lists
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.experiments.report.importance_charts import importance_chart
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.feature_importance import METHODS
    from rankgrad.models.registry import saved_kind

    needs_data = method not in ("gain", "split")
    given = None if data is None else DataSource(data, fold, data_root, missing=missing, columns=table.columns())
    together(
        partial(saved_kind, model),
        partial(one_of, "method", method, METHODS),
        *([partial(check_source, model, given, split)] if needs_data else []),
        partial(named, [metric]),
        partial(check_device, device),
        partial(check_top, top),
        *([] if out is None else [partial(check_chart_path, out)]),
    )
    scorer = load_model(model, device)
    lists = read_lists(scorer, model, given, split, table.regroup) if needs_data else None
    with telling(f"measuring {scorer.features} features"):
        shuffles: dict[str, Any] = {"repeats": repeats, "seed": seed, "within_lists": within_lists}
        found = scorer.feature_importance(lists, metric, method=method, **shuffles)
    if out is not None:
        save_chart(importance_chart(found, top), out)
    if as_json:
        from rankgrad.cli.json_output import print_json

        print_json(found.to_dict(top))
        return
    from rankgrad.cli.explained_lists import print_bars

    header, *rows = found.rows(top)
    print_bars(header, rows, [float(found.values[at]) for at in found.order(top)])
    notes = []
    if found.baseline is not None:
        shuffled = "within each list" if within_lists else "over all documents"
        notes.append(f"{found.metric} with all features: {found.baseline:.4f} ({found.lists} lists).")
        notes.append(f"Each feature was shuffled {shuffled}, {repeats} times.")
    if len(found.names) > len(rows):
        notes.append(f"{len(found.names) - len(rows)} other features are less important (--top prints more).")
    if out is not None:
        notes.append(f"Wrote {out}.")
    for note in notes:
        typer.echo(note)
