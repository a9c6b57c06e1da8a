"""`rankgrad text rerank`: sorts the best documents of a run by the scores of a text ranker."""

from pathlib import Path
from typing import Annotated

import typer

from rankgrad.cli.option_groups import Device
from rankgrad.cli.text import options
from rankgrad.cli.text.first_stage import DEPTH
from rankgrad.errors import bad_value


def rerank(
    model: Annotated[str, typer.Argument(help="Folder of a text ranker, or name of a pretrained ranker.")],
    index: options.Index,
    out: Annotated[Path, typer.Option(help="TREC run to write.", show_default=False)],
    run: Annotated[Path | None, typer.Option(help="TREC run to re-rank (default: BM25).")] = None,
    depth: Annotated[int, typer.Option(help="Number of documents per query.")] = DEPTH,
    queries: options.Queries = None,
    fuse: Annotated[bool, typer.Option("--fuse", help="Add the z-scores of the run and of the ranker.")] = False,
    tag: Annotated[str, typer.Option(help="Name of the written run.")] = "rankgrad",
    device: Device = "auto",
) -> None:
    """Re-rank a run. The new run has the best --depth documents of each query.

    During the run, the finished scores of a cross-encoder are in the file OUT.partial. After an interruption, the same
    command resumes from this file.

    Example: `rankgrad text rerank runs/a indexes/cranfield --run run.txt --out reranked.txt`
    """
    from rankgrad.cli.argument_checks import check_device, is_first, together
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import messages
    from rankgrad.cli.text.first_stage import first_stage, fused
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.cli.text.scoring import partial_file, score_in_blocks
    from rankgrad.cli.text.text_models import load_text_model
    from rankgrad.metrics import write_run
    from rankgrad.text import candidate_lists, to_run

    def fits() -> None:
        if run is not None and not run.is_file():
            bad_value("run", "be a TREC run", f"{run}: no such file")
        if out.is_dir():
            bad_value("out", "be a file", f"the folder {out}")
        if not tag or len(tag.split()) != 1:
            bad_value("tag", "be one word", repr(tag))

    together(fits, lambda: IndexFolder.open(index), lambda: check_device(device))
    scorer = load_text_model(model, device)
    folder = IndexFolder.open(index)
    with telling(f"reading {index}"):
        collection = folder.with_queries(queries)
        first = first_stage(folder, collection, run, depth)
        data = candidate_lists(collection, first, depth=depth)
    try:
        with telling():
            found = to_run(data, score_in_blocks(scorer, data, out, folder))
    except KeyboardInterrupt:
        if is_first():
            kept = partial_file(out).is_file()
            typer.echo(f"\nStopped. {'The same command resumes.' if kept else 'No scores were saved.'}", err=True)
        raise typer.Exit(130) from None
    if fuse:
        given = {query: {each: first[query][each] for each in scores} for query, scores in found.items()}
        found = fused([given, found], depth)
    write_run(out, found, tag)
    partial_file(out).unlink(missing_ok=True)
    messages().print(f"{len(data.labels):,} documents of {len(data):,} queries: {out}", markup=False)
