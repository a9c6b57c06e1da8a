"""`rankgrad demo`: trains and compares rankers on generated data, and writes a table and an HTML report."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np

    from rankgrad.data import Dataset, Splits
    from rankgrad.experiments.report.page_content import Study
    from rankgrad.experiments.report.ranker_study import RankerComparison

METRIC = "nDCG(empty='skip')@10"  # lists without a relevant document are skipped
SHOWN = "nDCG@10"  # name of the metric as shown
PREPROCESS = "log1p,standardise"
LOSSES = ("mse", "softmax", "lambdaloss")
BEST = "achievable"  # name of the best achievable order


class DemoRanker(NamedTuple):
    """A ranker of the demo, its scores on the test lists, and the record of its training."""

    name: str
    scores: "np.ndarray[Any, Any]"
    seconds: float | None = None  # seconds of training; None for a ranker that is not trained
    history: tuple[dict[str, Any], ...] = ()  # one row per epoch


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    lists: Annotated[int, typer.Option(min=30, help="Number of training lists to generate.")] = 1000,
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the training lists.")] = 40,
    seed: Annotated[int, typer.Option(help="Random seed of the data and the rankers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Generate lists, compare baselines and three losses on them, print a table and write a report.

    For generated lists, the best achievable result is known. Each result is also given as a share of this best result.

    Example: `rankgrad demo --lists 500 --out demo`
    """
    from rich import box
    from rich.table import Table

    import rankgrad as rg
    from rankgrad.cli.json_output import messages, print_json
    from rankgrad.cli.report import check_packages
    from rankgrad.cli.terminal_text import screen

    console, results = messages(as_json), screen(stderr=as_json)
    data = rg.data.synthetic(lists, seed=seed)
    for name, part in (("train", data.train), ("test", _test(data))):
        console.print(f"{name}: {len(part):,} generated lists, {len(part.labels):,} documents", highlight=False)
    rankers = []
    for ranker in _rankers(data, epochs, seed):
        rankers.append(ranker)
        if ranker.seconds is not None:
            console.print(f"  {ranker.name}: trained in {ranker.seconds:.1f} s", highlight=False)
    compared = _compared(data, rankers)
    table = Table(
        title=f"{SHOWN} on {len(_test(data))} test lists, one seed", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, 0), title_justify="left",
    )  # fmt: skip
    for place, column in enumerate(compared.table.heads):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for row in compared.table.rows:
        table.add_row(*(field.text for field in row))
    results.print(table)
    for note in compared.table.notes:
        results.print(f"{note}.", highlight=False, style="dim")
    if as_json:
        print_json({"rows": compared.table.records(), "notes": compared.table.notes})
    try:
        check_packages("the report")
    except ModuleNotFoundError as error:
        console.print(f"no report: {error}", style="yellow", markup=False, highlight=False)
        return
    from rankgrad.experiments.report.writer import write_page

    path = write_page([_study(data, rankers, compared)], out / "report.html")
    console.print(f"report: {path}", soft_wrap=True)


def _rankers(data: "Splits", epochs: int, seed: int) -> Iterator[DemoRanker]:
    """Yield the demo's rankers: random order, best feature on train, linear fit, MLPs with three losses, best order."""
    import numpy as np

    import rankgrad as rg
    from rankgrad.experiments.report.ranker_study import baselines

    train, test = data.train, _test(data)
    for baseline in baselines(train, test, METRIC, seed):
        yield DemoRanker(baseline.name, baseline.scores)
    begun = perf_counter()
    steps = rg.data.Preprocessing.parse(PREPROCESS).fit(train)
    weights, *_ = np.linalg.lstsq(steps.transform(train.features), train.labels - train.labels.mean(), rcond=None)
    scores = steps.transform(test.features) @ weights
    yield DemoRanker("linear, least squares", scores, perf_counter() - begun)
    for name in LOSSES:
        _train(data, name, 1, seed)  # compiles the kernels, so that the seconds below are seconds of training
        begun = perf_counter()
        model = _train(data, name, epochs, seed)
        seconds = perf_counter() - begun
        yield DemoRanker(f"MLP, {name}", model.score(test.features, test.offsets), seconds, tuple(model.history))
    assert test.best is not None
    yield DemoRanker(BEST, test.best)


def _test(data: "Splits") -> "Dataset":
    """Return the test lists of the demo's generated data, which always has test lists."""
    assert data.test is not None
    return data.test


def _train(data: "Splits", loss: str, epochs: int, seed: int) -> Any:
    import rankgrad as rg

    settings = rg.training.Settings(
        model="mlp:widths=128,dropout=0.2", loss=loss, preprocess=PREPROCESS, lr=3e-3, metric=METRIC,
        epochs=epochs, patience=None, seed=seed, device="cpu",
    )  # fmt: skip
    return rg.training.train(settings, data.train, data.validation)


def _compared(data: "Splits", rankers: list[DemoRanker]) -> "RankerComparison":
    """Return the metrics of all rankers of the demo, and for each ranker the share of the best achievable result."""
    from rankgrad.experiments.report.ranker_study import ScoredRanker, compare_rankers
    from rankgrad.experiments.tables.plain_table import Field
    from rankgrad.metrics import evaluate

    test = _test(data)

    def mean(scores: Any) -> float:
        return float(evaluate(scores, test.labels, [METRIC], offsets=test.offsets, bootstrap=0)[METRIC])

    best = mean(rankers[-1].scores)
    scored = []
    for ranker in rankers:
        share = mean(ranker.scores) / best
        seconds = Field("") if ranker.seconds is None else Field(f"{ranker.seconds:.1f}", ranker.seconds)
        scored.append(ScoredRanker(ranker.name, ranker.scores, (Field(f"{share:.1%}", share), seconds)))
    return compare_rankers(
        "generated lists", test, scored, [METRIC], title=f"{len(_test(data)):,} generated test lists",
        pair=("MLP, mse", "MLP, lambdaloss"), heads=("share of achievable", "seconds"),
        notes=("seconds: training, without the time to compile kernels",),
    )  # fmt: skip


def _study(data: "Splits", rankers: list[DemoRanker], compared: "RankerComparison") -> "Study":
    """Return the content of the HTML report of the demo."""
    from rankgrad.experiments.report import chart_data
    from rankgrad.experiments.report.page_content import INTERVALS, Study
    from rankgrad.experiments.report.ranker_study import MODEL, lists_of, number, run_of
    from rankgrad.experiments.runs import provenance

    name = "generated lists"
    runs = [run_of(name, ranker.name, list(ranker.history), METRIC) for ranker in rankers if ranker.history]
    means = {ranker: found[METRIC] for ranker, found in compared.found.items()}
    top = max((run.cell.loss for run in runs), key=lambda ranker: means[ranker])
    return Study(
        name="demo",
        title="rankgrad demo: three losses on generated lists",
        summary=(
            f"{top} is the best trained ranker: {SHOWN} {number(compared.found[top], METRIC)} on {len(_test(data)):,} "
            f"generated test lists, {means[top] / means[BEST]:.1%} of the best achievable result.",
            f"A linear fit has {means['linear, least squares']:.4f}, and a random order {means['random order']:.4f}.",
        ),
        warnings=(),
        facts=(
            lists_of(data.parts()),
            "The label of a document was computed from a utility plus random noise. The achievable order sorts by the "
            "utility without the noise. No ranker can be better on average.",
            "Each ranker was trained once, with one random seed. The best epoch was chosen on the validation lists.",
            f"Machine: {provenance.machine()}.",
            f"Versions: {', '.join(f'{package} {version}' for package, version in provenance.versions().items())}.",
        ),
        texts=(),
        tables=(compared.table,),
        data=(name,),
        models=(MODEL,),
        losses=tuple(ranker.name for ranker in rankers),
        metrics=(SHOWN,),
        validation_metric=METRIC,
        rows={"overview": compared.overview, "curves": chart_data.curve_rows(runs)},
        explorers={name: compared.explorer},
        measured=f"Mean over the test lists that have a relevant document, {INTERVALS}",
        queries="test lists",
        curves=", of lists that have a relevant document",
        kind="ranker",
    )
