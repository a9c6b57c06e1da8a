"""Options of the commands that use a saved model on labelled lists, such as `rankgrad evaluate`.

The lists are those of `--data`, or those of the data on which the model was trained.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rankgrad.cli.missing_option import Missing
from rankgrad.cli.option_groups import DataRoot, Device, Fold, option, with_parameters
from rankgrad.cli.table_options import TableOptions, with_table_options
from rankgrad.errors import bad_value, one_of

if TYPE_CHECKING:
    from rankgrad.cli.data_source import DataSource
    from rankgrad.data import Dataset
    from rankgrad.models.protocol import TrainedModel


@dataclass(frozen=True)
class ListOptions:
    """Lists on which a command uses a saved model, and the device of the model."""

    table: TableOptions
    data: Annotated[
        str | None, typer.Option(help="Data set name, folder, file or cache (default: the model's training data).")
    ] = None
    fold: Fold = None
    data_root: DataRoot = None
    split: Annotated[
        str | None, typer.Option(help="train, validation or test (default: test if it exists, or validation).")
    ] = None
    missing: Missing = None
    device: Device = "auto"

    def source(self, model: Path) -> "DataSource":
        """Return the data source of `--data`, or that of the training of a model.

        Args:
            model: folder of the model; options of the data that are not given are those of its training.
        """
        from rankgrad.cli.data_source import DataSource

        if self.data is None:
            found = DataSource.kept(model)
            if found is None:
                bad_value("data", f"be given, because {model} does not record its training data", None)
            return found
        source = DataSource(
            self.data,
            self.fold,
            self.data_root,
            missing=self.missing,
            columns=self.table.columns(),
            regroup=self.table.regroup,
        )
        return source.with_options_of(model)

    def check(self, model: Path, *more: object, data: bool = True) -> None:
        """Check the options before anything is read; one error contains all problems.

        Args:
            model: folder of the model.
            more: checks of other options of the command; a value that is no function is no check.
            data: False if the command needs no lists.
        """
        from rankgrad.cli.argument_checks import check_device, together
        from rankgrad.cli.data_source import PARTS
        from rankgrad.models.registry import saved_kind

        together(
            partial(saved_kind, model),
            data and (lambda: self.source(model).check(model if self.data is None else None)),
            data and partial(one_of, "split", self.split or "test", PARTS),
            *more,
            partial(check_device, self.device),
        )

    def read(self, model: Path, *usual: str) -> "ModelLists":
        """Load a model and read all parts of its lists.

        Args:
            model: folder of the model.
            usual: parts to use without `--split`; the first one that exists is used. With none, test or validation.
        """
        from rankgrad.cli.argument_checks import load_model
        from rankgrad.cli.data_source import choose_split, telling

        scorer, source = load_model(model, self.device), self.source(model)
        with telling(f"reading {source.data}"), no_columns_from_python(model):
            parts = source.hold_out(source.read(scorer))
            chosen = choose_split(source, parts, self.split, self.data is not None, usual or ("test", "validation"))
        return ModelLists(scorer, parts, chosen, training_use(model, source, chosen))


class ModelLists(NamedTuple):
    """A saved model, and the parts of its lists."""

    model: "TrainedModel"
    parts: "dict[str, Dataset]"  # lists, by the name of the part
    chosen: str  # name of the chosen part
    use: str | None  # use of this part in the training of the model, see `training_use`

    @property
    def lists(self) -> "Dataset":
        """Lists of the chosen part."""
        return self.parts[self.chosen]


def with_lists(command: Callable[..., None], **changed: Any) -> Callable[..., None]:
    """Replace the parameter `lists` of a command, a `ListOptions`, by the options of lists and tables.

    Args:
        command: function of the command.
        changed: annotations of options that this command describes in other words.
    """
    own = [each for each in fields(ListOptions) if each.name != "table"]

    @wraps(command)
    def run(table: TableOptions, **given: Any) -> None:
        lists = ListOptions(table, **{each.name: given.pop(each.name) for each in own})
        command(lists=lists, **given)

    added = [option(each.name, changed.get(each.name, each.type), each.default) for each in own]
    parameters = signature(command).parameters.values()
    return with_table_options(
        with_parameters(run, chain.from_iterable(added if each.name == "lists" else [each] for each in parameters))
    )


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
