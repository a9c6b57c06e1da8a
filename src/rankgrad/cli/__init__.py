"""The command line: one file a verb. A verb imports what it needs when it runs, so that `--help` stays quick."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from rankgrad.cli.terminal_text import shown

# In the order of a first day with rankgrad. Each names a module of this package with a function of the same name.
VERBS = (
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

        # Processes that a command starts import them, too.
        known = [name for name in os.environ.get(IMPORTS, "").split(",") if name]
        os.environ[IMPORTS] = ",".join(dict.fromkeys([*known, *modules]))
        import_kinds()
    return modules


_KINDLESS = ("demo", "inspect", "convert", "measure", "pretrain-loss")  # commands that load and train no ranker by name
# Said before the commands are imported: the module `list` then takes the place of the type in this one.
_MODULES = Annotated[
    list[str] | None,
    typer.Option("--import", help="Module that registers a kind of ranker.", is_eager=True, callback=_import),
]


def _importing(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option `--import`, for modules that register kinds of rankers of one's own."""

    @wraps(command)
    def run(*arguments: Any, own_modules: Any = None, **options: Any) -> None:
        command(*arguments, **options)

    own = Parameter("own_modules", Parameter.KEYWORD_ONLY, default=None, annotation=_MODULES)
    run.__signature__ = Signature([*signature(command).parameters.values(), own])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "own_modules": _MODULES}
    return run


for _verb in VERBS:
    _name = _verb.replace("-", "_")
    _command = getattr(import_module(f"rankgrad.cli.{_name}"), _name)
    app.command(_verb)(_command if _verb in _KINDLESS else _importing(_command))


def main() -> None:
    """Run the command line. What is wrong with the input is a sentence each on standard error, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        for line in str(error).splitlines():
            typer.echo(f"rankgrad: {shown(line)}", err=True)
        sys.exit(2)
