"""`rankgrad list`: prints the known losses, models, metrics, data sets or recipes, with descriptions."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from rankgrad.cli.option_groups import AsJson
from rankgrad.errors import one_of


class NameTable(NamedTuple):
    """Table of the names of one kind: header, rows and notes."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def list(
    what: Annotated[
        str | None,
        typer.Argument(help="losses, models, metrics, datasets or recipes.", autocompletion=lambda: [*LISTS]),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the losses, models, metrics, data sets or recipes that rankgrad knows by name, with their options.

    Example: `rankgrad list losses`
    """
    from rankgrad.cli.json_output import print_json
    from rankgrad.cli.terminal_tables import print_names

    if what is None:
        if as_json:
            print_json({name: about for name, (about, _) in LISTS.items()})
            return
        for name, (about, _) in LISTS.items():
            typer.echo(f"rankgrad list {name:9}  {about}")
        return
    one_of("what to list", what.lower(), LISTS)
    tables = LISTS[what.lower()][1]()
    if as_json:
        print_json([dict(zip(each.header, row, strict=True)) for each in tables for row in each.rows])
        return
    for each in tables:
        print_names(each.header, each.rows, each.notes)


def _losses() -> Iterable[NameTable]:
    from rankgrad import losses
    from rankgrad.losses.from_text import LISTS as SHARED

    rows = []
    for name in sorted(losses.__all__, key=str.lower):
        loss = getattr(losses, name)
        takes = {key: value for key, value in _defaults(loss).items() if key not in SHARED}
        cutoff = "[@k]" if "k" in takes else ""
        options = _options((key, value) for key, value in takes.items() if key != "k")
        rows.append((name.lower() + cutoff, _about(loss), options))
    notes = (
        "Form: name[@k][:option=value,...], such as lambdaloss@5 or approx_ndcg:temperature=0.1.",
        "Every loss has the option gumbel=N: the mean of the loss over N noisy copies of the scores.",
        "relaxed:metric=AP,operator=neural_sort,... combines any metric with any relaxation of rankgrad.relax.",
    )
    yield NameTable(("loss", "description", "options"), rows, notes)


def _models() -> Iterable[NameTable]:
    from rankgrad.models.registry import kinds
    from rankgrad.rankers import PRESETS

    rows = [tuple(line) for kind in kinds() for line in kind.listing()]
    yield NameTable(("model", "description", "options"), rows)
    presets = [
        (name, preset.model, preset.source, _options(preset.options.items())) for name, preset in PRESETS.items()
    ]
    notes = (
        "Form: name[:option=value,...], such as mlp:widths=256-128,dropout=0.1.",
        "A preset also uses the training settings of its paper. Settings on the command line replace these settings.",
    )
    yield NameTable(("preset", "model", "from", "options"), presets, notes)


def _metrics() -> Iterable[NameTable]:
    from rankgrad.metrics.metric import KINDS, Metric

    rows = [
        (f"{name}[@k]", _about(kind.function), _options(Metric(name).defaults.items())) for name, kind in KINDS.items()
    ]
    notes = (
        "Form: name[(option=value, ...)][@k], such as nDCG@10 or \"nDCG(gain='linear')@10\".",
        "The names MRR, MAP, NDCG, Precision and Recall are also accepted. For ARP, lower values are better.",
    )
    yield NameTable(("metric", "description", "options"), rows, notes)


def _datasets() -> Iterable[NameTable]:
    from rankgrad.data import datasets

    rows = []
    for facts in datasets():
        numbers = ("" if value is None else f"{value:,}" for value in (facts.queries, facts.documents, facts.features))
        also = f"also {', '.join(facts.aliases)}" if facts.aliases else ""
        about = "; ".join(filter(None, (facts.note, also)))
        rows.append((facts.name, *numbers, str(facts.folds or ""), about))
    notes = (
        "Data sets are in the folder --data-root or $RANKGRAD_DATA; `rankgrad inspect NAME` checks a data set.",
        "synthetic:lists=200,seed=1 sets options of generated data. A folder with a train file is also a data set.",
        "text:path=cranfield,depth=100 has one list per query of a collection: the first 100 documents of BM25.",
    )
    yield NameTable(("data set", "queries", "documents", "features", "folds", "about"), rows, notes)


def _recipes() -> Iterable[NameTable]:
    from rankgrad.experiments.recipes.shipped import shipped_recipes
    from rankgrad.experiments.recipes.yaml_file import parse_yaml

    rows = []
    for name, path in shipped_recipes().items():
        recipe = parse_yaml(path.read_bytes(), path.name)  # `load_recipe` also checks all settings, which takes longer
        entries = [{"name": entry} if isinstance(entry, str) else entry for entry in recipe["data"]]
        labels = (f"{entry.get('name', entry.get('folder'))}{'-b' * bool(entry.get('binary'))}" for entry in entries)
        rows.append((name, recipe["title"], ", ".join(labels)))
    notes = (
        "Run a recipe: rankgrad experiment NAME --only DATASET --quick. NAME can also be the path of a YAML file.",
    )
    yield NameTable(("recipe", "title", "data sets"), rows, notes)


LISTS: dict[str, tuple[str, Callable[[], Iterable[NameTable]]]] = {
    "losses": ("training objectives of a ranker", _losses),
    "models": ("rankers, and presets from papers", _models),
    "metrics": ("quality measures of a ranker", _metrics),
    "datasets": ("benchmark sets, and generated data", _datasets),
    "recipes": ("experiments that reproduce tables and figures of papers", _recipes),
}


def _about(thing: Any) -> str:
    """Return the description of a loss or metric: the first line of the docstring, without backticks and full stop."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].rstrip(".").replace("`", "")


def _defaults(thing: Any) -> dict[str, Any]:
    """Return the options of a loss that have a default, with their defaults."""
    parameters = inspect.signature(thing).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _options(options: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in options)


def _text(value: Any) -> str:
    if isinstance(value, tuple) or type(value).__name__ == "list":
        return "-".join(map(_text, value))
    return getattr(value, "__name__", str(value))
