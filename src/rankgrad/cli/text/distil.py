"""`rankgrad text distil`: trains a text ranker on the scores of a teacher, or on the teacher's order of documents."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.cli.setting_options import with_setting_options
from rankgrad.cli.text import options
from rankgrad.errors import bad_value
from rankgrad.settings.text import TextSettings

LOSS = "listnet:targets=softmax"


# --temperature is that of the teacher.
@with_setting_options(TextSettings, {"temperature": "cosine_temperature"}, loss=LOSS)
def distil(
    settings: dict[str, Any],
    out: options.RunFolder,
    index: options.IndexOfRun = None,
    teacher: Annotated[
        str | None, typer.Option(help="Text ranker, TREC run, or order (.jsonl).", show_default=False)
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Folder or name of the student's encoder.", show_default=False)
    ] = None,
    standardise: Annotated[str | None, typer.Option(help="Scaling: zscore or minmax (default: none).")] = None,
    temperature: Annotated[float | None, typer.Option(help="Divisor of teacher scores (default: 1).")] = None,
    fuse: Annotated[
        bool, typer.Option("--fuse", help="Add the scores of the candidate run to the teacher's scores.")
    ] = False,
    run: Annotated[Path | None, typer.Option(help="Candidates (default: teacher run, or BM25).")] = None,
    depth: options.RunDepth = None,
    fold: options.RunFold = None,
    holdout: Annotated[
        float | None, typer.Option(help="Validation share without --fold (default: 0.2).", hidden=True)
    ] = None,
    pseudo: options.Pseudo = False,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.RunJson = False,
    init_model: Annotated[Path | None, typer.Option(help="Folder of a text ranker to start from.", hidden=True)] = None,
    queries: options.RunQueries = None,
    qrels: options.RunQrels = None,
    folds: options.RunFolds = None,
) -> None:
    """Train a text ranker on the scores of a teacher; labels are used in validation.

    Example: `rankgrad text distil INDEX --teacher runs/a --encoder MODEL --out b`
    """
    given = dict(locals())  # all parameters, by name
    from rankgrad.cli.text.training_runs import train_text_ranker

    if teacher is None and not resume:
        bad_value("teacher", "be a text ranker, a TREC run or an order of documents (.jsonl)", None)
    loss = {} if resume else {"loss": LOSS}
    train_text_ranker("distil", {**loss, **settings}, given)
