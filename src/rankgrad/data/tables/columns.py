"""Choose the columns of a table: label, query id, document id, weight and features."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rankgrad.data.tables.errors import NoColumn, blanks_of_lightgbm, some
from rankgrad.errors import Problem, bad_type, bad_value, mistyped

# Names of columns that are found without being given, in upper or lower case.
USUAL = {
    "label": ("label", "relevance", "grade", "rel"),
    "qid": ("qid", "query_id", "queryid", "query"),
    "docid": ("docid", "doc_id", "document_id", "documentid"),
}


INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")  # column that pandas writes for the index of a data frame


@dataclass(frozen=True)
class Columns:
    """Columns of a table. If `label`, `qid` or `docid` is None, a column with a usual name is used.

    Args:
        label: column of the labels; usual names are `label`, `relevance`, `grade` and `rel`.
        qid: column of the query ids; usual names are `qid`, `query_id`, `queryid` and `query`.
        features: names or patterns (`bm25*`) of the feature columns; None for all numeric columns that have no other
            purpose.
        drop: names or patterns of columns that are not features.
        docid: column of the document ids; usual names are `docid`, `doc_id`, `document_id` and `documentid`. This
            column is optional.
        weight: column of the document weights; None for no weights.
        categorical: names or patterns of the categorical features, for example columns of texts or ids. Columns of a
            categorical type (of pandas, polars or Arrow) are always categorical.
    """

    label: str | None = None
    qid: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    docid: str | None = None
    weight: str | None = None
    categorical: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("features", "drop", "categorical"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))

    def __bool__(self) -> bool:
        """Return True if the user named at least one column of the table."""
        return self != ANY


ANY = Columns()  # nothing is given: columns with usual names


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of one table: label, query id, features, and optional columns."""

    label: str | None  # None if the table has no labels; such a table is only for scoring
    qid: str
    features: tuple[str, ...]
    docid: str | None = None
    weight: str | None = None
    unused: tuple[str, ...] = ()  # columns that are not used, such as columns of text
    categorical: tuple[str, ...] = ()  # names of the categorical features

    @property
    def keys(self) -> list[str]:
        """Names of all columns of the table that are not features."""
        return list(dict.fromkeys(filter(None, (self.label, self.qid, self.docid, self.weight))))


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
    label = _named("label", given.label, numeric, needed=labelled)
    qid = _named("qid", given.qid, numeric, needed=True)
    assert qid is not None
    docid = _named("docid", given.docid, numeric, needed=False)
    weight = None if given.weight is None else _named("weight", given.weight, numeric, needed=True)
    for role, column in (("label", label), ("weight", weight)):
        if column is not None and not numeric[column] and (labelled or role != "label"):
            bad_type(role, "be a numeric column", f"text in column {column!r}")
    taken = {label, qid, docid, weight}
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
    used = {*features, *taken, *dropped}
    if other := [column for column in _matching("categorical", given.categorical, numeric) if column not in features]:
        bad_value("categorical", "be feature columns", some(other))
    unused = tuple(column for column in numeric if column not in used)
    chosen_categorical = tuple(column for column in features if column in categorical)
    return ChosenColumns(label, qid, tuple(features), docid, weight, unused, chosen_categorical)


def _named(role: str, given: str | None, columns: Iterable[str], *, needed: bool) -> str | None:
    """Return the table column for `role`: the column `given`; if `given` is None, a column with a usual name."""
    names = list(columns)
    if given is not None:
        if given not in names:
            bad_value(role, "be a column of the table", *mistyped(given, names, f"columns: {some(names)}"))
        return given
    lower: dict[str, Any] = {}
    for name in names:
        lower.setdefault(name.lower(), name)
    found = next((lower[usual] for usual in USUAL.get(role, ()) if usual in lower), None)
    if found is None and needed:
        usual = ", ".join(map(repr, USUAL[role]))
        raise NoColumn(Problem(role, f"be given, because no column is named {usual}", f"the columns {some(names)}"))
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
