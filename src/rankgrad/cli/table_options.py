"""Options of all commands that read tables: the columns, and `--regroup`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Annotated, Any

import typer

from rankgrad.cli.option_groups import option, with_parameters
from rankgrad.roles import ALL, SEVERAL, Columns, Role

PANEL = "Tables (CSV, TSV, JSON lines, Parquet, Arrow)"


@dataclass(frozen=True)
class TableOptions:
    """Options that say how to read a table: the columns that are given, by role, and `--regroup`."""

    given: Mapping[str, Any]
    regroup: bool = False  # True to accept rows of a query that are not adjacent

    def columns(self) -> Columns:
        """Convert the options of a table to `Columns`, which the readers of tables need."""
        return Columns(**{name: value for name, value in self.given.items() if value})


def help_all(context: typer.Context, wanted: bool) -> None:
    """Print the help of a command, including hidden options, such as the options of tables."""
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def _help(role: Role) -> str:
    *others, last = role.usual or ("",)
    return f"{role.help} (default: {', '.join(others)} or {last})." if others else f"{role.help}."


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def with_table_options(command: Callable[..., None], shown: Sequence[str] = ()) -> Callable[..., None]:
    """Add the options of a table to a command. The command receives the values as the argument `table`.

    Args:
        command: function of the command.
        shown: options that `--help` also shows; it hides the others.
    """
    added: dict[str, tuple[Any, Any]] = {}
    names = {role.name: role.option or role.name for role in ALL} | {"regroup": "regroup"}
    # `--query` of `rankgrad explain` is a query id, so its column has another name.
    typed = {
        name: f"{spelled}_column" if spelled in signature(command).parameters else spelled
        for name, spelled in names.items()
    }
    for role in ALL:
        spelling = f"--{typed[role.name].replace('_', '-')}"
        hidden = names[role.name] not in shown
        column = typer.Option(spelling, help=_help(role), rich_help_panel=PANEL, metavar="<str>", hidden=hidden)
        kind: Any = list[str] | None if role.several else str | None
        added[typed[role.name]] = Annotated[kind, column], None
    regroup = typer.Option(
        "--regroup", help="Accept rows of a query that are not adjacent.", rich_help_panel=PANEL, hidden=True
    )
    added["regroup"] = Annotated[bool, regroup], False
    if "help_all" not in signature(command).parameters:
        text = "Also show the options of tables."
        show = typer.Option("--help-all", help=text, is_eager=True, callback=help_all)
        added["help_all"] = Annotated[bool, show], False

    @wraps(command)
    def run(**given: Any) -> None:
        found = {name: given.pop(spelled) for name, spelled in typed.items()}
        regroup = found.pop("regroup")
        several = {role.name: _names(found[role.name] or ()) for role in SEVERAL}
        table = TableOptions(found | several, regroup)
        command(table=table, **{name: value for name, value in given.items() if name not in added})

    own = [each for each in signature(command).parameters.values() if each.name != "table"]
    return with_parameters(run, [*own, *(option(name, *each) for name, each in added.items())])
