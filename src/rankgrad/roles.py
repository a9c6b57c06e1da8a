"""The roles of the columns of a table: what each is for. Readers, caches, frames and commands read this registry.

A role is a field of `Columns`, declared once. A column that only an objective needs, such as a position, needs no role:
it is named in `training_columns`, and is in `Dataset.columns`.
"""

from dataclasses import dataclass, field, fields
from typing import Any, TypedDict


@dataclass(frozen=True)
class Role:
    """The role of one column, or of several columns, of a table."""

    name: str  # name of the field of `Columns`, and of the argument of readers
    help: str  # help of the option on the command line
    values: str = ""  # attribute of `Dataset` with the values of the column; "" if the role has several columns
    option: str = ""  # name of the option, if it is not `name`
    usual: tuple[str, ...] = ()  # names of columns that are found without being given, in upper or lower case
    numbers: bool = False  # True if the values are numbers of at least 0; otherwise, they are ids
    several: bool = False  # True for names or patterns of several columns
    of_lists: bool = False  # True for one value per list

    @property
    def title(self) -> str:
        """Noun of the ids in the column: `query`, `list` or `document`."""
        return self.help.removeprefix("Column of the ").split()[0]


def _role(help: str, default: Any = None, **about: Any) -> Any:
    return field(default=default, metadata={"help": help, **about})


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
        list_id: column of the list ids, for queries with several lists, such as sessions. The rows of a query with the
            same list id are a list. None if the rows of a query are one list.
        training_columns: names or patterns of columns of numbers that are used in training only, such as the position
            of a click or a second label. They are in `Dataset.columns`, and are not features.
    """

    label: str | None = _role(
        "Column of the labels", values="labels", usual=("label", "relevance", "grade", "rel"), numbers=True
    )
    qid: str | None = _role(
        "Column of the query ids",
        values="qids",
        option="query",
        usual=("qid", "query_id", "queryid", "query"),
        of_lists=True,
    )
    features: tuple[str, ...] | None = _role(
        "Feature columns, separated by commas; * matches any text (default: all other numeric columns)", several=True
    )
    drop: tuple[str, ...] = _role(
        "Columns that are not features, separated by commas; * matches any text", (), several=True
    )
    docid: str | None = _role(
        "Column of the document ids", values="docids", usual=("docid", "doc_id", "document_id", "documentid")
    )
    weight: str | None = _role("Column of the document weights", values="weights", numbers=True)
    categorical: tuple[str, ...] = _role(
        "Categorical features, separated by commas: columns, or feature numbers of LETOR text", (), several=True
    )
    list_id: str | None = _role(
        "Column of the list ids, for queries with several lists", values="list_ids", of_lists=True
    )
    training_columns: tuple[str, ...] = _role(
        "Columns that only training uses, such as positions, separated by commas", (), several=True
    )

    def __post_init__(self) -> None:
        for role in SEVERAL:
            given = getattr(self, role.name)
            if given is not None:
                object.__setattr__(self, role.name, (given,) if isinstance(given, str) else tuple(given))

    def __bool__(self) -> bool:
        """Return True if the user named at least one column of the table."""
        return self != ANY


class ColumnNames(TypedDict, total=False):
    """The fields of `Columns` as arguments of a function, for type checkers."""

    label: str | None
    qid: str | None
    features: Any
    drop: Any
    docid: str | None
    weight: str | None
    categorical: Any
    list_id: str | None
    training_columns: Any


ALL = tuple(Role(each.name, **each.metadata) for each in fields(Columns))
ROLES = tuple(role for role in ALL if not role.several)  # one column each, with its values in the data set
SEVERAL = tuple(role for role in ALL if role.several)
ANY = Columns()  # nothing is given: columns with usual names
