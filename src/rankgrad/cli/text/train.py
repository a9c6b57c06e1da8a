"""`rankgrad text train`: fine-tunes a bi-encoder or a cross-encoder on the queries of an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.cli.setting_options import with_setting_options
from rankgrad.cli.text import options
from rankgrad.settings.text import TextSettings


@with_setting_options(TextSettings)
def train(
    settings: dict[str, Any],
    out: options.RunFolder,
    index: options.IndexOfRun = None,
    encoder: Annotated[
        str | None, typer.Option(help="Folder or Hugging Face name of the encoder.", show_default=False)
    ] = None,
    run: Annotated[Path | None, typer.Option(help="TREC run with candidates (default: BM25).")] = None,
    depth: options.RunDepth = None,
    fold: options.RunFold = None,
    holdout: Annotated[float | None, typer.Option(help="Validation share without --fold (0.2).")] = None,
    pseudo: options.Pseudo = False,
    init_model: Annotated[Path | None, typer.Option(help="Folder of a text ranker to start from.")] = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.RunJson = False,
    queries: options.RunQueries = None,
    qrels: options.RunQrels = None,
    folds: options.RunFolds = None,
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
    given = dict(locals())  # all parameters, by name
    from rankgrad.cli.text.training_runs import train_text_ranker

    train_text_ranker("train", settings, given)
