"""Several table files that are read as one table, such as the parts `S1.csv` to `S3.csv` of a fold."""

from collections.abc import Iterator, Sequence
from typing import Any

from rankgrad.data.tables.errors import TableError, some
from rankgrad.data.tables.table_file import TableFile, UseBlock


class JoinedTables(TableFile):
    """The rows of several tables, in order. The first table determines columns and types; errors count all rows."""

    def __init__(self, parts: Sequence[TableFile]) -> None:
        first = parts[0]
        path = first.path.with_name(" + ".join(part.path.name for part in parts))
        super().__init__(path, first.format, first.schema, [file for part in parts for file in part.files])
        self.parts, self.is_text, self.partitions = parts, first.is_text, first.partitions
        for part in parts[1:]:
            if part.format != first.format:
                raise TableError(part.path, None, f"the format {part.format}", f"{first.format}, as in {first.path}")
            absent = [name for name in first.names if name not in part.names]
            if absent and first.format != "jsonl":  # a line of JSON may omit a key
                raise TableError(part.path, None, f"no column {some(absent)}", f"the columns of {first.path}")

    def find_late_columns(self) -> bool:
        """Find the columns that the first block of the first table does not have; return True if there are some."""
        import pyarrow as pa

        known = {*self.names}
        late: dict[str, Any] = {}
        for part in self._ready():
            part.find_late_columns()
            for field in part.schema:
                if field.name not in known and (field.name not in late or pa.types.is_null(late[field.name].type)):
                    late[field.name] = field
                    self.numeric[field.name] = part.numeric[field.name]
        self.schema, self.names, self.late = pa.schema([*self.schema, *late.values()]), [*self.names, *late], set()
        return bool(late)

    def _ready(self) -> Iterator[TableFile]:
        """Yield the tables, after they have received what the reader has chosen for all of them."""
        for part in self.parts:
            part.ids, part.categorical, part.late = self.ids, self.categorical, self.late
            if self.is_text:
                part.schema, part.numeric = self.schema, {**part.numeric, **self.numeric}
            if self.format == "jsonl":
                part.names = [*self.names]  # a key that is not in this list begins late; columns of CSV have a place
            yield part

    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]:
        for part in self._ready():
            yield from part.batches(columns, threads)

    def each_block(self, columns: Sequence[str], use: UseBlock) -> int:
        """Divide columns of all tables into blocks, and call `use` with each block; see `TableFile.each_block`."""
        rows = 0
        for part in self._ready():

            def moved(block: Any, row: int, left: int, start: int = rows) -> None:
                use(block, start + row, left)

            rows += part.each_block(columns, moved)
        return rows
