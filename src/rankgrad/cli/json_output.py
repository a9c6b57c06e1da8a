"""Print JSON on standard output. With `--json`, a command prints everything else on standard error."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Any) -> None:
    """Print a value as JSON. A number that is NaN or infinite becomes null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def messages(as_json: bool = False) -> "Console":
    """Return the console for messages of a command: standard output, or standard error with `--json`.

    With `--quiet`, the console is silent. In a run of several processes, only the first process prints.
    """
    from rankgrad.cli.argument_checks import is_first
    from rankgrad.cli.shared_options import options
    from rankgrad.cli.terminal_text import screen

    return screen(stderr=as_json, quiet=options.quiet or not is_first(), highlight=False, soft_wrap=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _plain(value.item()) if hasattr(value, "item") else str(value)
