"""`rankgrad export`: writes a model as one file that other programs run."""

from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.option_groups import AsJson, SavedModel


def export(
    model: SavedModel,
    out: Annotated[Path, typer.Argument(help="File to write, such as model.onnx or model.pt2.")],
    format: Annotated[
        str | None,
        typer.Option(
            help="All models: onnx. Networks: torch. Trees: lightgbm, xgboost, vespa, ranklib. Trees and linear "
            "rankers: elasticsearch (also for OpenSearch), solr. Default: by the ending of the file name."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model, with its preprocessing, for ONNX, PyTorch or a search engine, and check the file.

    An ONNX or PyTorch file takes raw `features` (lists, n, f) and a boolean `mask` (lists, n) for any number of lists
    and documents, and returns `scores` (lists, n). The check compares the scores of the file with the scores of the
    model, for inputs of several shapes. An existing file is replaced. A blend can only be exported to ONNX: one file
    contains all its models. `rankgrad export runs/a model.json --format solr` writes a file for a search engine. Such a
    file contains the feature names, and the name of the model in it is the file name.

    Example: `rankgrad export runs/a model.onnx`
    """
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.shared_options import one_line
    from rankgrad.models.protocol import EXPORT_TOLERANCE
    from rankgrad.models.registry import load

    with one_line(ArithmeticError, effect=f"{out} was not written"), telling():
        done = load(model).export(out, format=format)
    if as_json:
        found = {"file": out, "format": done.format, "bytes": done.path.stat().st_size, "engine": done.engine}
        print_json({**found, "shapes": done.shapes, "difference": done.difference, "tolerance": EXPORT_TOLERANCE})
        return
    console = messages()
    shapes = ", ".join(f"{lists} x {documents}" for lists, documents in done.shapes)
    agree = f"agree with the model's scores within {EXPORT_TOLERANCE:g}"
    console.print(f"checked: scores of {done.engine} {agree} for shapes {shapes} (lists x documents);", markup=False)
    console.print(f"         the largest difference is {done.difference:.1e}")
    console.print(f"{out}: {done.format}, {done.path.stat().st_size / 1e6:.2f} MB", markup=False)
