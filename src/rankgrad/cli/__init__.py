"""The command line: one file per command. A command imports packages only when it runs, so that `--help` is fast."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from rankgrad.cli.terminal_text import shown

# Commands, in the order in which a new user needs them. Each module has a function of the same name.
COMMANDS = (
    *("demo", "inspect", "train", "evaluate", "predict", "list", "export", "compare", "tune", "experiment", "report"),
    *("convert", "measure", "pretrain-loss"),
)

app = typer.Typer(
    help="Train rankers on the metric they are judged by.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        from rankgrad import __version__

        typer.echo(f"rankgrad {__version__}")
        raise typer.Exit


def _import(modules: Sequence[str] | None) -> Sequence[str] | None:
    if modules:
        from rankgrad.models.registry import IMPORTS, import_kinds

        # Processes that a command starts also import these modules.
        known = [name for name in os.environ.get(IMPORTS, "").split(",") if name]
        os.environ[IMPORTS] = ",".join(dict.fromkeys([*known, *modules]))
        import_kinds()
    return modules


_WITHOUT_RANKERS = (
    "demo",
    "inspect",
    "convert",
    "measure",
    "pretrain-loss",
)  # commands that neither load nor train a ranker by name
# Defined before the commands are imported: after the import, the name `list` means the module and not the type.
_MODULES = Annotated[
    list[str] | None,
    typer.Option("--import", help="Module that registers a kind of ranker.", is_eager=True, callback=_import),
]


def _importing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option `--import` to a command, for modules that register custom kinds of rankers."""

    @wraps(command)
    def run(*arguments: Any, custom_modules: Any = None, **options: Any) -> None:
        command(*arguments, **options)

    option = Parameter("custom_modules", Parameter.KEYWORD_ONLY, default=None, annotation=_MODULES)
    run.__signature__ = Signature([*signature(command).parameters.values(), option])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "custom_modules": _MODULES}
    return run


for _command in COMMANDS:
    _name = _command.replace("-", "_")
    _function = getattr(import_module(f"rankgrad.cli.{_name}"), _name)
    app.command(_command)(_function if _command in _WITHOUT_RANKERS else _importing(_function))


def main() -> None:
    """Run the command line. Errors in the input are printed on standard error, one per line, without a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        for line in str(error).splitlines():
            typer.echo(f"rankgrad: {shown(line)}", err=True)
        sys.exit(2)
