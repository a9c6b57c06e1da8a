"""The command line: one file a verb. A verb imports what it needs when it runs, so that `--help` stays quick."""

import sys
from importlib import import_module

import typer

from rankgrad.cli.screen import shown

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


for _verb in VERBS:
    _name = _verb.replace("-", "_")
    app.command(_verb)(getattr(import_module(f"rankgrad.cli.{_name}"), _name))


def main() -> None:
    """Run the command line. What is wrong with the input is a sentence each on standard error, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        for line in str(error).splitlines():
            typer.echo(f"rankgrad: {shown(line)}", err=True)
        sys.exit(2)
