"""`rankgrad text train`: fine-tunes a bi-encoder or a cross-encoder on the queries of an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.cli.setting_options import with_setting_options
from rankgrad.settings.text import TextSettings


@with_setting_options(TextSettings)
def train(
    settings: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the run.", show_default=False)],
    index: Annotated[Path | None, typer.Argument(help="Index folder, written by `rankgrad text index`.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Folder or Hugging Face name of the encoder.", show_default=False)
    ] = None,
    run: Annotated[Path | None, typer.Option(help="TREC run with candidates (default: BM25).")] = None,
    depth: Annotated[int | None, typer.Option(help="Candidates per query (default: 100).")] = None,
    fold: Annotated[int | None, typer.Option(help="Fold of the queries, from 1 to 5.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Validation share without --fold (0.2).")] = None,
    pseudo: Annotated[bool, typer.Option("--pseudo", help="Use parts of documents as queries.")] = False,
    init_model: Annotated[Path | None, typer.Option(help="Folder of a text ranker to start from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.", hidden=True)] = False,
    queries: Annotated[
        Path | None, typer.Option(help="File of queries (default: those of the index).", hidden=True)
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="File of labels (default: those of the index).", hidden=True)
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Number of folds (default: 5).", hidden=True)] = None,
    add_relevant: Annotated[
        bool | None,
        typer.Option(
            "--add-relevant/--no-add-relevant",
            help="Add relevant documents that are not in the run to the training lists (default: yes).",
            hidden=True,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Fine-tune a text ranker with any loss, and save the best epoch on validation.

    With --fold, the queries are divided into five parts: three for training, one for validation, and one for the test.

    Example: `rankgrad text train INDEX --encoder MODEL --fold 1 --out runs/a`
    """
    from rankgrad.cli.text.training_runs import train_text_ranker

    given: dict[str, Any] = {
        "index": index,
        "queries": queries,
        "qrels": qrels,
        "run": run,
        "depth": depth,
        "fold": fold,
    }
    given |= {"folds": folds, "holdout": holdout, "pseudo": pseudo, "add_relevant": add_relevant}
    given |= {"init_model": init_model, "seed": settings.get("seed")}
    options: dict[str, Any] = {"out": out, "resume": resume, "overwrite": overwrite, "as_json": as_json}
    train_text_ranker("train", settings, given, encoder=encoder, **options)
