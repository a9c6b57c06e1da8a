"""The commands `rankgrad text ...`: one file per command, in the order in which a new user needs them."""

from importlib import import_module

import typer

from rankgrad.cli import shared_options
from rankgrad.cli.option_names import names_of
from rankgrad.cli.option_synonyms import SuggestingCommand

COMMANDS = ("index", "search", "train", "rerank", "evaluate", "distil", "seal")

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.callback()
def _start(context: typer.Context) -> None:
    """Rank text: index and search documents, train re-rankers and evaluate them. Needs `rankgrad[text]`."""
    names_of(context)


for _command in COMMANDS:
    _function = getattr(import_module(f"rankgrad.cli.text.{_command}"), _command)
    app.command(_command, cls=SuggestingCommand)(shared_options.with_shared_options(_function))
