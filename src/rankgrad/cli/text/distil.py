"""`rankgrad text distil`: trains a text ranker on the scores of a teacher, or on the teacher's order of documents."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rankgrad.cli.setting_options import with_setting_options
from rankgrad.errors import bad_value
from rankgrad.settings.text import TextSettings

LOSS = "listnet:targets=softmax"


# --temperature is that of the teacher.
@with_setting_options(TextSettings, {"temperature": "cosine_temperature"}, loss=LOSS)
def distil(
    settings: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the run.", show_default=False)],
    index: Annotated[Path | None, typer.Argument(help="Index folder, written by `rankgrad text index`.")] = None,
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
    depth: Annotated[int | None, typer.Option(help="Candidates per query (default: 100).")] = None,
    fold: Annotated[int | None, typer.Option(help="Fold of the queries, from 1 to 5.")] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Validation share without --fold (default: 0.2).", hidden=True)
    ] = None,
    pseudo: Annotated[bool, typer.Option("--pseudo", help="Use parts of documents as queries.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.", hidden=True)] = False,
    init_model: Annotated[Path | None, typer.Option(help="Folder of a text ranker to start from.", hidden=True)] = None,
    queries: Annotated[
        Path | None, typer.Option(help="File of queries (default: those of the index).", hidden=True)
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="File of labels (default: those of the index).", hidden=True)
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Number of folds (default: 5).", hidden=True)] = None,
) -> None:
    """Train a text ranker on the scores of a teacher; labels are used in validation.

    Example: `rankgrad text distil INDEX --teacher runs/a --encoder MODEL --out b`
    """
    from rankgrad.cli.text.training_runs import train_text_ranker

    if teacher is None and not resume:
        bad_value("teacher", "be a text ranker, a TREC run or an order of documents (.jsonl)", None)
    given: dict[str, Any] = {
        "index": index,
        "queries": queries,
        "qrels": qrels,
        "run": run,
        "depth": depth,
        "fold": fold,
    }
    given |= {"folds": folds, "holdout": holdout, "pseudo": pseudo, "init_model": init_model}
    given |= {"teacher": teacher, "standardise": standardise, "temperature": temperature, "fuse": fuse}
    given |= {"seed": settings.get("seed")}
    loss = {} if resume else {"loss": LOSS}
    options: dict[str, Any] = {"out": out, "resume": resume, "overwrite": overwrite, "as_json": as_json}
    train_text_ranker("distil", {**loss, **settings}, given, encoder=encoder, **options)
