"""`rankgrad calibrate`: fits functions that convert the scores of a saved model to probabilities."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.list_options import ListOptions, with_lists
from rankgrad.cli.option_groups import AsJson, Chart
from rankgrad.cli.shared_options import described
from rankgrad.errors import one_of

if TYPE_CHECKING:
    from rankgrad.data import Dataset
    from rankgrad.models.calibration import Calibration
    from rankgrad.models.reliability import Reliability


@partial(with_lists, split=Annotated[str | None, described("Lists to fit on: train, validation or test", "validation")])
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    lists: ListOptions,
    method: Annotated[str, described("platt (logistic) or isotonic", "platt")] = "platt",
    target: Annotated[str, described("binary (relevant or not), or grade (each grade)", "binary")] = "binary",
    threshold: Annotated[float, described("For binary: labels above this value are relevant", "0")] = 0.0,
    as_json: AsJson = False,
    out: Chart = None,
) -> None:
    """Fit functions from scores to probabilities of relevance; save these functions in the folder of the model.

    The scores do not change. The expected calibration error (ECE) is measured on test lists. If there are no test
    lists, the ECE is measured by cross-validation on the lists of the fit. The commands `predict --calibrated`,
    `evaluate` and `export` use the probabilities.

    Example: `rankgrad calibrate runs/a --out reliability.html`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.experiments.report.chart_files import check_chart_path, save_chart
    from rankgrad.models.calibration import METHODS, TARGETS, write_calibration
    from rankgrad.models.folder import CALIBRATION, read_config

    lists.check(
        model,
        model.is_file() and partial(read_config, model),
        partial(one_of, "method", method, METHODS),
        partial(one_of, "target", target, TARGETS),
        out and partial(check_chart_path, out),
    )
    scorer, parts, chosen, use = lists.read(model, "validation")
    options: dict[str, Any] = {"method": method, "target": target, "threshold": threshold}
    with telling("calibrating"):
        _warn_of_training_lists(use)
        fitted = scorer.calibrate(parts[chosen], **options)
        tested = "test" if chosen != "test" and "test" in parts else None
        measured = parts[tested or chosen]
        scores = scorer.score_lists(measured)
        before, after = _measure(fitted, scores, measured, options, crossed=tested is None)
    write_calibration(model, fitted)
    if out is not None:
        from rankgrad.experiments.report.reliability_chart import SIGMOID, reliability_chart

        save_chart(reliability_chart({SIGMOID: before, "calibrated": after}), out)
    if as_json:
        from rankgrad.cli.json_output import print_json

        results = {"before": [each.to_dict() for each in before], "after": [each.to_dict() for each in after]}
        print_json({"calibration": fitted.to_json(), "measured": tested or "cross-validation", **results})
        return
    typer.echo(
        f"{method}, fitted on {fitted.lists:,} lists with {fitted.documents:,} documents of {parts[chosen].name}"
    )
    _print(before, after)
    if after:
        how = f"on the {len(measured):,} test lists" if tested else "by cross-validation on the lists of the fit"
        typer.echo(f"The ECE was measured {how}. With few documents, even exact probabilities have an ECE above 0.")
    else:
        typer.echo("There are too few lists to measure the ECE.")
    for path in (model / CALIBRATION, *([] if out is None else [out])):
        typer.echo(f"Wrote {path}.")


def _warn_of_training_lists(use: str | None) -> None:
    import warnings

    if use in ("trained", "other fold"):
        where = "on the training lists of the model" if use == "trained" else "on lists of another fold of the training"
        advice = "use --data with lists that the model has not seen"
        warnings.warn(f"the calibration was fitted {where}: the probabilities are too extreme ({advice})", stacklevel=2)


def _measure(
    fitted: "Calibration", scores: Any, lists: "Dataset", options: dict[str, Any], crossed: bool
) -> "tuple[list[Reliability], list[Reliability]]":
    """Return the reliability of two kinds of probabilities: sigmoids of the scores, and calibrated probabilities."""
    from rankgrad.models.calibration import cross_measure, measure_calibration

    before = [each for each in measure_calibration(None, scores, lists) if each.event in fitted.events]
    after = cross_measure(scores, lists, **options) if crossed else measure_calibration(fitted, scores, lists)
    return before, after or []


def _print(before: "list[Reliability]", after: "list[Reliability]") -> None:
    """Print the reliability: one row per event and kind of probability (not calibrated, calibrated)."""
    from rankgrad.cli.terminal_tables import print_names

    named = [("sigmoid of the score", before), ("calibrated", after)]
    rows = [
        (each.event, name, f"{each.ece:.4f}", "[{:.4f}, {:.4f}]".format(*each.interval), f"{each.brier:.4f}")
        for name, results in named
        for each in results
    ]
    if rows:
        print_names(("event", "probability", "ECE", "95% interval", "Brier"), sorted(rows, key=lambda row: row[0]))
