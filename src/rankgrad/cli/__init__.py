"""The command line: one file per command. `--help` is fast, because a command imports packages only when it runs."""

import sys
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer

from rankgrad.cli import shared_options, text
from rankgrad.cli.option_names import as_typed, names_of
from rankgrad.cli.option_synonyms import SuggestingCommand
from rankgrad.cli.terminal_text import shown

# Commands by the panel of `rankgrad --help`, in the order in which a new user needs them. Each module has a function of
# the same name.
PANELS = {
    "Train and use rankers": "demo inspect auto train evaluate predict calibrate importance explain compare export",
    "Study": "tune experiment report measure pretrain-loss",
    "System": "list convert doctor",
}
COMMANDS = " ".join(PANELS.values()).split()

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from rankgrad import __version__

        typer.echo(f"rankgrad {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
    quiet: shared_options.Quiet = False,
    verbose: shared_options.Verbose = False,
    debug: shared_options.Debug = False,
    verify: shared_options.Verify = False,
    custom_modules: shared_options.Import = None,
) -> None:
    """Train rankers on the metric they are judged by.

    --quiet, --verbose, --debug, --verify and --import are also allowed after the command name.
    """
    names_of(context)
    shared_options.begin(quiet, verbose, debug, verify, custom_modules)


def _add(command: str, panel: str) -> None:
    name = command.replace("-", "_")
    module = import_module(f"rankgrad.cli.{name}")
    context = getattr(module, "CONTEXT_SETTINGS", None)
    function = shared_options.with_shared_options(getattr(module, name))
    app.command(command, cls=SuggestingCommand, context_settings=context, rich_help_panel=panel)(function)


for _panel, _commands in PANELS.items():
    for _command in _commands.split():
        _add(_command, _panel)
app.add_typer(text.app, name="text", rich_help_panel=next(iter(PANELS)))


def main() -> None:
    """Run the command line. Errors and warnings are printed on standard error, one line per problem."""
    shows = warnings.showwarning
    warnings.showwarning = _one_line
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        if shared_options.options.debug:
            raise
        for line in as_typed(error).splitlines():
            typer.echo(f"rankgrad: {shown(line)}", err=True)
        sys.exit(2)
    finally:
        warnings.showwarning = shows


def _one_line(message: Warning | str, category: type[Warning], *where: Any, **_: Any) -> None:
    """Print a warning of rankgrad without the line of code, which is not the user's."""
    if issubclass(category, UserWarning):
        typer.echo(f"warning: {as_typed(message)}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, *where[:2]), err=True, nl=False)
