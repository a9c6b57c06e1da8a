"""`rankgrad text evaluate`: measures runs and text rankers with the labels of an index."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankgrad.cli.option_groups import AsJson, Device
from rankgrad.cli.terminal_tables import TEXT_METRICS
from rankgrad.cli.text import options
from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.metrics.trec import Run


def evaluate(
    index: options.Index,
    runs: Annotated[list[str], typer.Argument(help="TREC runs, or folders of text rankers.")],
    metric: Annotated[list[str], typer.Option("--metric", "-m", help="Metric, such as AP; repeatable.")] = TEXT_METRICS,
    fold: Annotated[int | None, typer.Option(help="Measure only the test queries of this fold.")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    queries: options.Queries = None,
    qrels: options.Qrels = None,
    each: Annotated[bool, typer.Option("--each", "-q", help="Also print the value of each query.")] = False,
    as_json: AsJson = False,
    bootstrap: Annotated[int, typer.Option(help="Number of bootstrap samples.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
    device: Device = "auto",
) -> None:
    """Measure runs as trec_eval does, and compare each run with the first: paired t-test, Holm's correction.

    All queries with labels are measured; a query without results in a run has value 0. A text ranker re-ranks the
    same run as in its training.

    Example: `rankgrad text evaluate INDEX bm25.txt reranked.txt --fold 1`
    """
    from rankgrad.cli.argument_checks import check_device, together
    from rankgrad.cli.data_source import telling
    from rankgrad.cli.json_output import print_json
    from rankgrad.cli.terminal_text import shown
    from rankgrad.cli.text.index_folder import IndexFolder
    from rankgrad.cli.text.run_comparison import compare_text_runs, print_comparison
    from rankgrad.metrics.evaluate import named
    from rankgrad.text.candidates import fold_roles

    def fits() -> None:
        if len(set(runs)) != len(runs):
            bad_value(
                "runs", "be different runs", f"{next(each for each in runs if runs.count(each) > 1)} more than once"
            )

    together(fits, lambda: named(metric), lambda: IndexFolder.open(index), lambda: check_device(device))
    folder = IndexFolder.open(index)
    with telling(f"reading {index}"):
        judged, texts = folder.labels(queries, qrels)
    if not judged:
        bad_value("qrels", f"be given, because {index} contains no labels", None)
    roles = dict.fromkeys(texts, "test") if fold is None else fold_roles(texts, fold, folds)
    judged = {query: labels for query, labels in judged.items() if roles.get(query) == "test"}
    if not judged:
        bad_value("qrels", "contain labels of the queries", "none")
    with telling():
        measured = {query: texts[query] for query in judged}
        found = {name: _run(name, folder, queries, measured, device) for name in runs}
    for name, run in found.items():
        if not run.keys() & judged.keys():
            must = "contain a query with labels (the run may be of another collection)"
            bad_value(name, must, f"queries such as {next(iter(run), '')!r}")
    result = compare_text_runs(found, judged, metric, bootstrap, seed)
    if as_json:
        print_json(result.to_dict(values=each))
        return
    if each:
        for name, evaluation in result.results.items():
            for place, query in enumerate(evaluation.queries or ()):
                for what, values in evaluation.values.items():
                    typer.echo(f"{shown(name)}\t{what}\t{shown(str(query))}\t{values[place]:.4f}")
    print_comparison(result)


def _run(name: str, folder: "IndexFolder", queries: Path | None, measured: dict[str, str], device: str) -> "Run":
    """Return a run to evaluate: from a TREC run file, or from a text ranker."""
    from rankgrad.cli.text.text_models import is_model
    from rankgrad.metrics import read_run

    if is_model(name):
        return _reranked(Path(name), folder, queries, measured, device)
    if not Path(name).is_file():
        bad_value("runs", "be TREC runs, or folders of text rankers", f"{name}: no such file")
    return read_run(name)


def _reranked(path: Path, folder: "IndexFolder", queries: Path | None, measured: dict[str, str], device: str) -> "Run":
    """Return the run of a text ranker to evaluate. The ranker re-ranks the run of its training, or the run of BM25."""
    import numpy as np

    from rankgrad.cli.text.first_stage import DEPTH, first_stage
    from rankgrad.cli.text.scoring import score_in_blocks
    from rankgrad.cli.text.seen_queries import warn_if_seen
    from rankgrad.cli.text.text_models import load_text_model
    from rankgrad.cli.text.training_lists import KEPT, TextLists
    from rankgrad.text import candidate_lists, to_run

    lists = TextLists.kept(path) if (path / KEPT).is_file() else TextLists(str(folder.path))
    same = Path(lists.index).resolve() == folder.path.resolve() and not lists.pseudo
    warn_if_seen([path], measured)
    model = load_text_model(str(path), device)
    collection = folder.with_queries(queries)
    first = first_stage(folder, collection, lists.candidate_run if same else None, lists.depth or DEPTH)
    data = candidate_lists(collection, first, depth=lists.depth or DEPTH)
    data = data.take(np.flatnonzero([str(query) in measured for query in data.qids.tolist()]))
    return to_run(data, score_in_blocks(model, data, folder=folder))
