"""Options of all commands that read tables: the columns, and `--regroup`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.cli.option_groups import option, with_parameters

if TYPE_CHECKING:
    from rankgrad.data import Columns

PANEL = "Tables (CSV, TSV, JSON lines, Parquet, Arrow)"
_HELP = {
    "label": "Column of the labels (default: label, relevance, grade or rel).",
    "query": "Column of the query ids (default: qid, query_id, queryid or query).",
    "features": "Feature columns, separated by commas; * matches any text (default: all other numeric columns).",
    "drop": "Columns that are not features, separated by commas; * matches any text.",
    "docid": "Column of the document ids (default: docid, doc_id, document_id or documentid).",
    "weight": "Column of the document weights.",
    "categorical": "Categorical features, separated by commas: columns, or feature numbers of LETOR text.",
}
_SEVERAL = ("features", "drop", "categorical")


@dataclass(frozen=True)
class TableOptions:
    """Options that say how to read a table; None if an option is not given."""

    label: str | None = None
    query: str | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    docid: str | None = None
    weight: str | None = None
    categorical: Sequence[str] | None = None
    regroup: bool = False  # True to accept rows of a query that are not adjacent

    def columns(self) -> "Columns":
        """Convert the options of a table to `Columns`, which the readers of tables need."""
        from rankgrad.data import Columns

        features = None if not self.features else _names(self.features)
        several = _names(self.drop or ()), _names(self.categorical or ())
        return Columns(self.label, self.query, features, several[0], self.docid, self.weight, several[1])


def help_all(context: typer.Context, wanted: bool) -> None:
    """Print the help of a command, including hidden options, such as the options of tables."""
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def with_table_options(command: Callable[..., None], shown: Sequence[str] = ()) -> Callable[..., None]:
    """Add the options of a table to a command. The command receives the values as the argument `table`.

    Args:
        command: function of the command.
        shown: options that `--help` also shows; it hides the others.
    """
    added: dict[str, tuple[Any, Any]] = {}
    # `--query` of `rankgrad explain` is a query id, so its column has another name.
    typed = {name: f"{name}_column" if name in signature(command).parameters else name for name in (*_HELP, "regroup")}
    for name, help in _HELP.items():
        spelling = f"--{typed[name].replace('_', '-')}"
        column = typer.Option(spelling, help=help, rich_help_panel=PANEL, metavar="<str>", hidden=name not in shown)
        added[typed[name]] = (
            Annotated[list[str] | None, column] if name in _SEVERAL else Annotated[str | None, column],
            None,
        )
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
        table = TableOptions(**{name: given.pop(typed_name) for name, typed_name in typed.items()})
        command(table=table, **{name: value for name, value in given.items() if name not in added})

    own = [each for each in signature(command).parameters.values() if each.name != "table"]
    return with_parameters(run, [*own, *(option(name, *each) for name, each in added.items())])
