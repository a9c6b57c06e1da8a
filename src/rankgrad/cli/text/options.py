"""Options that several commands `rankgrad text ...` have: `queries: options.Queries = None`."""

from pathlib import Path
from typing import Annotated

import typer

_INDEX = "Index folder, written by `rankgrad text index`."
_QUERIES, _QRELS = (f"File of {what} (default: those of the index)." for what in ("queries", "labels"))

Index = Annotated[Path, typer.Argument(help=_INDEX)]
Queries = Annotated[Path | None, typer.Option(help=_QUERIES)]
Qrels = Annotated[Path | None, typer.Option(help=_QRELS)]

# Options of a training, which a resumed run has recorded: None means that the option is not given.
RunFolder = Annotated[Path, typer.Option(help="Folder of the run.", show_default=False)]
IndexOfRun = Annotated[Path | None, typer.Argument(help=_INDEX)]
RunQueries = Annotated[Path | None, typer.Option(help=_QUERIES, hidden=True)]
RunQrels = Annotated[Path | None, typer.Option(help=_QRELS, hidden=True)]
RunDepth = Annotated[int | None, typer.Option(help="Candidates per query (default: 100).")]
RunFold = Annotated[int | None, typer.Option(help="Fold of the queries, from 1 to 5.")]
RunFolds = Annotated[int | None, typer.Option(help="Number of folds (default: 5).", hidden=True)]
RunJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", hidden=True)]
Pseudo = Annotated[bool, typer.Option("--pseudo", help="Use parts of documents as queries.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")]
