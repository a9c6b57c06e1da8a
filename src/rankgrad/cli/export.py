"""`rankgrad export`: writes a model as one file that other programs run."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    out: Annotated[Path, typer.Argument(help="File to write, such as model.onnx or model.pt2.")],
    format: Annotated[str | None, typer.Option(help="onnx or torch (default: chosen by file extension).")] = None,
) -> None:
    """Export a model, with its preprocessing, to ONNX or to PyTorch's export format, and check the file.

    The file takes raw `features` (lists, n, f) and a boolean `mask` (lists, n) for any number of lists and documents,
    and returns `scores` (lists, n). The check compares these scores with the scores of the model, for inputs of several
    shapes.

    Example: `rankgrad export runs/a model.onnx`
    """
    from rankgrad.models.protocol import EXPORT_TOLERANCE
    from rankgrad.models.registry import load

    try:
        done = load(model).export(out, format=format)
    except ArithmeticError as error:
        typer.echo(f"rankgrad: {error}; {out} was not written", err=True)
        raise typer.Exit(1) from None
    shapes = ", ".join(f"{lists} x {documents}" for lists, documents in done.shapes)
    size = done.path.stat().st_size / 1e6
    typer.echo(
        f"checked: scores of {done.engine} agree with the model's within {EXPORT_TOLERANCE:g} "
        f"for shapes {shapes} (lists x documents);"
    )
    typer.echo(f"         the largest difference is {done.difference:.1e}")
    typer.echo(f"{out}: {done.format}, {size:.2f} MB")
