"""Choose the columns of a table: one for each role of `rankgrad.roles`, and the features."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rankgrad.data.tables.errors import NoColumn, blanks_of_lightgbm, some
from rankgrad.errors import Problem, bad_type, bad_value, mistyped
from rankgrad.roles import ROLES, Columns, Role

INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")  # column that pandas writes for the index of a data frame


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of one table: the column of each role, the features, and optional columns."""

    by_role: Mapping[str, str]  # names of columns by the name of their role; a table without labels is only for scoring
    features: tuple[str, ...]
    unused: tuple[str, ...] = ()  # columns that are not used, such as columns of text
    categorical: tuple[str, ...] = ()  # names of the categorical features
    training: tuple[str, ...] = ()  # names of the columns that are used in training only

    @property
    def qid(self) -> str:
        """Name of the column of the query ids of the table."""
        return self.by_role["qid"]

    @property
    def list_keys(self) -> list[str]:
        """Names of the columns that divide the rows of the table into lists."""
        return [column for name in ("qid", "list_id") if (column := self.by_role.get(name)) is not None]

    @property
    def numbers(self) -> dict[str, tuple[str, float]]:
        """For each array of numbers that is not a feature: the name of its column, and the lowest number."""
        found = {
            each.values: (self.by_role[each.name], 0.0) for each in ROLES if each.numbers and each.name in self.by_role
        }
        return found | {f"column-{number}": (name, -np.inf) for number, name in enumerate(self.training)}

    @property
    def keys(self) -> list[str]:
        """Names of all columns of the table that are not features."""
        return list(dict.fromkeys((*self.by_role.values(), *self.training)))

    def record(self) -> dict[str, Any]:
        """Return the columns of the table as JSON values, by which a cache is recognised."""
        usual = {"label": None, "qid": None, "features": [*self.features], "docid": None, "weight": None}
        return {**usual, **self.by_role, **({"training_columns": [*self.training]} if self.training else {})}


def choose(
    given: Columns,
    numeric: Mapping[str, bool],
    *,
    labelled: bool = True,
    model: Sequence[str] | None = None,
    partitions: Sequence[str] = (),
    typed: Sequence[str] = (),
) -> ChosenColumns:
    """Choose the columns of a table.

    Args:
        given: columns that the user named.
        numeric: for each column of the table, True if the column contains numbers.
        labelled: True if the table must have labels.
        model: names of the features of a model, in the order of the model; the table must have all these columns.
        partitions: columns whose values are in the names of folders, such as `year=2024`. A column of this kind is a
            feature only if the user named it.
        typed: columns of a categorical type.
    """
    categorical = {*_matching("categorical", given.categorical, numeric), *typed}
    numeric = {column: known or column in categorical for column, known in numeric.items()}
    by_role: dict[str, str] = {}
    for role in ROLES:
        needed = role.name == "qid" or (role.name == "label" and labelled)
        if (column := _named(role, getattr(given, role.name), numeric, needed=needed)) is not None:
            by_role[role.name] = column
    # A table that is not for training need not have the columns that only training uses.
    training = [name for name in given.training_columns if (labelled and model is None) or name in numeric]
    training = _matching("training_columns", training, numeric)
    used = [(role.name, by_role[role.name]) for role in ROLES if role.numbers and role.name in by_role]
    for name, column in (*used, *(("training_columns", column) for column in training)):
        if not numeric[column] and (labelled or name != "label"):
            bad_type(name, "be a numeric column", f"text in column {column!r}")
    taken = {*by_role.values(), *training}
    dropped = set(_matching("drop", given.drop, numeric))
    dropped |= {column for column in partitions if column not in taken}
    free = [column for column in numeric if column not in taken and column not in dropped]
    if model is not None and given.features is None:
        features = _of_model(model, numeric)
    elif given.features is None:
        features = [column for column in free if numeric[column] and not INDEX.fullmatch(column)]
    else:
        chosen = _matching("features", given.features, numeric)
        exact = {name for name in given.features if name in numeric}
        features = [column for column in chosen if column in exact or column in free]
    if both := [column for column in features if column in dropped and column not in partitions]:
        bad_value("drop", "not contain a feature that the model needs or that features names", some(both))
    if not features:
        bad_value("features", "contain at least one numeric column", f"none among {some(list(numeric))}")
    if text := [column for column in features if not numeric[column]]:
        bad_value("features", "be numeric columns", some(text))
    if both := [column for column in features if column in taken]:
        bad_value("features", "not contain the column of labels, query ids, document ids or weights", some(both))
    not_free = {*features, *taken, *dropped}
    if other := [column for column in _matching("categorical", given.categorical, numeric) if column not in features]:
        bad_value("categorical", "be feature columns", some(other))
    unused = tuple(column for column in numeric if column not in not_free)
    chosen_categorical = tuple(column for column in features if column in categorical)
    return ChosenColumns(by_role, tuple(features), unused, chosen_categorical, tuple(training))


def _named(role: Role, given: str | None, columns: Iterable[str], *, needed: bool) -> str | None:
    """Return the table column for `role`: the column `given`; if `given` is None, a column with a usual name."""
    names = list(columns)
    if given is not None:
        if given not in names:
            bad_value(role.name, "be a column of the table", *mistyped(given, names, f"columns: {some(names)}"))
        return given
    lower: dict[str, Any] = {}
    for name in names:
        lower.setdefault(name.lower(), name)
    found = next((lower[usual] for usual in role.usual if usual in lower), None)
    if found is None and needed:
        usual = ", ".join(map(repr, role.usual))
        raise NoColumn(
            Problem(role.name, f"be given, because no column is named {usual}", f"the columns {some(names)}")
        )
    return found


def _matching(role: str, patterns: Sequence[str], columns: Iterable[str]) -> list[str]:
    """Return the table columns that match names or patterns, sorted by pattern and then by position in the table."""
    found: dict[str, None] = {}
    names = list(columns)
    for pattern in patterns:
        matches = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            bad_value(role, "be columns of the table", *mistyped(pattern, names, f"columns: {some(names)}"))
        found |= dict.fromkeys(matches)
    return list(found)


def _of_model(model: Sequence[str], columns: Iterable[str]) -> list[str]:
    names = set(columns)
    if missing := [name for name in model if name not in names]:
        got = f"no column {some(missing)}, but the columns {some(list(columns))}{blanks_of_lightgbm(missing, columns)}"
        bad_value("the table", f"have the {len(model)} features of the model as columns", got)
    return list(model)
