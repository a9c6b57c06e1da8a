"""Base class of the files with tables. Rows are read in batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from rankgrad.data.tables.errors import TableError, unreadable

BLOCK = 4 << 20  # bytes of text per batch; the types of columns are inferred from the first block
UseBlock: TypeAlias = Callable[[Any, int, int], object]


class TableFile(ABC):
    """A table in one file or in several files."""

    is_text = False

    def __init__(self, path: Path, format: str, schema: Any, files: Sequence[Path]) -> None:
        self.path, self.format, self.schema, self.files = path, format, schema, list(files)
        self.names: list[str] = list(schema.names)
        # Columns of ids and of categories; text files are read without a conversion of these to numbers.
        self.ids: set[str] = set()
        self.categorical: set[str] = set()
        self.partitions: tuple[str, ...] = ()  # columns that are in the names of folders
        self.numeric: dict[str, bool] = {field.name: is_numeric(field.type) for field in schema}
        # Columns whose type is categorical. Their values are texts or numbers in a dictionary.
        self.typed: list[str] = dictionaries(schema)
        self.categories: dict[str, tuple[str, ...]] = {}  # categories of the columns that are read as categories
        # For each block of a categorical column: name, number of values that are not in `categories`, number of values.
        self.unknown: list[tuple[str, int, int]] = []
        self.late: set[str] = set()  # columns that a batch has, but not the first block
        self.infinite: list[tuple[str, int]] = []  # name of a column, and number of its infinite values in a block

    @property
    def bytes(self) -> int:
        """Number of bytes of all files of the table."""
        return sum(path.stat().st_size for path in self.files)

    def batches(self, columns: Sequence[str], threads: bool = True) -> Iterator[Any]:
        """Yield record batches with the columns `columns`; all rows are in the order of the table.

        Args:
            columns: names of the columns of each batch, in this order.
            threads: True to read with several threads.
        """
        import pyarrow as pa

        try:
            yield from self._batches(list(columns), threads)
        except UnicodeDecodeError as error:
            raise TableError(self.path, None, "text that is not UTF-8", "a file in UTF-8") from error
        except (pa.ArrowException, OSError) as error:
            raise self._explain(error, list(columns)) from error

    def each_block(self, columns: Sequence[str], use: UseBlock) -> int:
        """Divide columns of the table into blocks, call `use` with each block, and return the number of rows.

        Args:
            columns: names of columns.
            use: function with three arguments: a block (a record batch), the index of the first row of the block, and
                the index in `columns` of the first column of the block. Several threads may call the function at the
                same time.
        """
        row, waiting = 0, None
        with ThreadPoolExecutor(1) as pool:
            for batch in self.batches(columns):
                if waiting is not None:
                    waiting.result()
                waiting = pool.submit(use, batch, row, 0)
                row += batch.num_rows
            if waiting is not None:
                waiting.result()
        return row

    def find_late_columns(self) -> bool:
        """Find columns that the first block does not have; return True if there are some. Most formats have none."""
        return False

    @abstractmethod
    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]: ...

    def _explain(self, error: Exception, columns: list[str]) -> Exception:
        return unreadable(self.path, self.format, error)


def dictionaries(schema: Any) -> list[str]:
    """Return the names of the columns of a schema whose type is categorical."""
    import pyarrow as pa

    return [field.name for field in schema if pa.types.is_dictionary(field.type)]


def is_numeric(kind: Any) -> bool:
    """Return True for the Arrow type of a column that can be a numerical feature."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)
