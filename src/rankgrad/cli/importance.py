"""`rankgrad importance`: measures how much a saved model depends on each feature."""

from functools import partial
from typing import Annotated, Any

import typer

from rankgrad.cli.list_options import ListOptions, with_lists
from rankgrad.cli.option_groups import AsJson, Chart, SavedModel
from rankgrad.cli.shared_options import described
from rankgrad.errors import one_of


@with_lists
def importance(
    model: SavedModel,
    lists: ListOptions,
    metric: Annotated[str, described("Metric", "nDCG@10", None, "--metric", "-m")] = "nDCG@10",
    method: Annotated[
        str, described("permutation, gain or split (trees), gradient (neural rankers)", "permutation")
    ] = "permutation",
    repeats: Annotated[int, described("Number of shuffles per feature", "5")] = 5,
    within_lists: Annotated[bool, typer.Option("--within-lists", help="Shuffle within each list only.")] = False,
    seed: Annotated[int, described("Random seed of the shuffles", "0")] = 0,
    top: Annotated[int, described("Number of features to print", "20")] = 20,
    as_json: AsJson = False,
    out: Chart = None,
) -> None:
    """Measure the importance of each feature: the decrease of a metric if the feature is shuffled, with intervals.

    Example: `rankgrad importance runs/a --data MQ2008 --fold 1 --out importance.html`
    """
    from rankgrad.cli.argument_checks import load_model
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.explained_lists import check_top
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.experiments.report.importance_charts import importance_chart
    from rankgrad.metrics.evaluate import named
    from rankgrad.models.feature_importance import METHODS

    needs_data = method not in ("gain", "split")
    lists.check(
        model,
        partial(one_of, "method", method, METHODS),
        partial(named, [metric]),
        partial(check_top, top),
        out and partial(check_chart_path, out),
        data=needs_data,
    )
    read = lists.read(model) if needs_data else None
    scorer = read.model if read else load_model(model, lists.device)
    with telling(f"measuring {scorer.features} features"):
        shuffles: dict[str, Any] = {"repeats": repeats, "seed": seed, "within_lists": within_lists}
        found = scorer.feature_importance(read and read.lists, metric, method=method, **shuffles)
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
