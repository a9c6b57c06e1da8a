"""Read lists for a saved model: the lists of `--data`, or the lists of the data on which the model was trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel


def check_source(model: Path, given: "DataSource | None", split: str | None) -> None:
    """Check that the lists for a saved model exist; no list is read.

    Args:
        model: folder of the model.
        given: data source of the command line; None for the training data of the model.
        split: name of the split, or None.
    """
    from functools import partial

    from rankgrad.cli.argument_checks import together
    from rankgrad.cli.data_source import PARTS

    def found() -> None:
        source = _source(model, given)
        if source is None:
            bad_value("data", f"be given, because {model} does not record its training data", None)
        source.check(model if given is None else None)

    together(found, partial(one_of, "split", split or "test", PARTS))


def read_lists(
    scorer: "TrainedModel", model: Path, given: "DataSource | None", split: str | None, regroup: bool
) -> "Dataset":
    """Read the lists of a split for a saved model.

    Args:
        scorer: model that scores the lists.
        model: folder of the model.
        given: data source of the command line; None for the training data of the model.
        split: name of the split; None for test lists, or for validation lists if there are no test lists.
        regroup: True to accept rows of a query that are not adjacent.
    """
    found = read_parts(scorer, model, given, split, regroup)
    return found.parts[found.chosen]


class ModelParts(NamedTuple):
    """Parts of the data for a saved model."""

    parts: "dict[str, Dataset]"  # lists, by the name of the part
    chosen: str  # name of the chosen part
    use: str | None  # use of this part in the training of the model, see `training_use`


def read_parts(
    scorer: "TrainedModel", model: Path, given: "DataSource | None", split: str | None, regroup: bool, *usual: str
) -> ModelParts:
    """Read all parts of the data for a saved model, and choose one; `usual` is as in `choose_split`."""
    from dataclasses import replace

    from rankgrad.cli.data_source import choose_split, telling

    source = _source(model, None if given is None else replace(given, regroup=regroup))
    assert source is not None
    with telling(f"reading {source.data}"), no_columns_from_python(model):
        parts = source.hold_out(source.read(scorer))
        chosen = choose_split(source, parts, split, given is not None, usual or ("test", "validation"))
    return ModelParts(parts, chosen, training_use(model, source, chosen))


def training_use(model: Path, source: "DataSource", split: str) -> str | None:
    """Return the use of a split in the training of a model: `trained`, `selected`, `other fold`, or None for no use.

    `other fold` means that the model was trained on another fold of the same data, which may contain these lists.

    Args:
        model: folder of the model.
        source: data source of the split.
        split: name of the split.
    """
    from rankgrad.cli.data_source import DataSource

    kept = DataSource.kept(model)
    if kept is None or kept.absolute().data != source.absolute().data:
        return None
    if kept.fold != source.fold:
        return "other fold"
    return "trained" if split in kept.trained else "selected" if split == "validation" else None


@contextmanager
def no_columns_from_python(*models: Path) -> Iterator[None]:
    """Add a reason to the error about a column that must be given, if the models do not record their columns."""
    from dataclasses import replace

    from rankgrad.cli.data_source import DataSource
    from rankgrad.data.tables.errors import NoColumn

    try:
        yield
    except NoColumn as error:
        if any(map(DataSource.kept, models)):
            raise
        folders = " and ".join(map(str, models))
        why = "a model that was saved from Python does not record columns, so the columns must be given"
        raise error.changed(lambda problem: replace(problem, got=f"{problem.got} ({folders}: {why})")) from None


def _source(model: Path, given: "DataSource | None") -> "DataSource | None":
    from rankgrad.cli.data_source import DataSource

    return DataSource.kept(model) if given is None else given.with_options_of(model)
