"""Options that several commands have, each declared once, and functions that give a command such options."""

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

SavedModel = Annotated[Path, typer.Argument(help="Folder of a model, or model file of trees.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Chart = Annotated[Path | None, typer.Option(help="Also draw a chart: .html, .svg or .png.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Fold = Annotated[int | None, typer.Option(help="Fold number, for data sets with folds.")]
DataRoot = Annotated[str | None, typer.Option(help="Folder of data sets (default: $RANKGRAD_DATA).")]
Metrics = Annotated[list[str], typer.Option("--metric", "-m", help="Metric, such as nDCG@10; repeatable.")]


def option(name: str, annotation: Any, default: Any) -> Parameter:
    """Return an option as a parameter of a command.

    Args:
        name: name of the parameter; Typer derives the name of the option, if the annotation has none.
        annotation: type with a `typer.Option`.
        default: default value.
    """
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_parameters(function: Callable[..., None], parameters: Iterable[Parameter]) -> Callable[..., None]:
    """Set the parameters from which Typer makes arguments and options, and return the function.

    Args:
        function: function that takes any keyword arguments.
        parameters: parameters of the command.
    """
    given = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    function.__signature__ = Signature(given)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in given}
    return function
