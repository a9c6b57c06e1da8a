"""Read tables in JSON lines. Columns may begin in any row, and an id may be an integer in one row and text in another.

A block of lines is parsed by pyarrow, with the types that the column had so far. If a block has other values, Python's
own parser reads this block: it is slow, but it keeps all integers.
"""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankgrad.data.categories import category_text
from rankgrad.data.letor import passes
from rankgrad.data.tables.errors import TableError, unreadable
from rankgrad.data.tables.table_file import BLOCK, TableFile, is_numeric
from rankgrad.ids import BadId, id_text

_LONGEST_LINE = 256 << 20
_EXACT = 2.0**53  # a larger double may be a rounded integer
_OBJECT = "one JSON object per line"
_BLANK = re.compile(r"[ \t\r\n]*")
_SHOWN = 80  # characters of a value in an error


class _BadRow(Exception):
    """A row of a block that cannot be read: its index in the block, the problem, and what is expected."""

    def __init__(self, row: int, wrong: str, expected: str) -> None:
        super().__init__(row, wrong, expected)
        self.row, self.wrong, self.expected = row, wrong, expected


class _Parsed(NamedTuple):
    """A block of JSON lines: an Arrow table with the wanted columns, or an error; and the types of other columns."""

    table: Any
    others: dict[str, Any]
    error: _BadRow | None = None


class JsonFile(TableFile):
    """A file with one JSON object per line. If a line does not contain a key, the value is missing."""

    is_text = True

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path, self.ids, self.categorical = path, set(), set()
        self._kinds: dict[str, Any] = {}  # type of each column of ids in the last block; None if types are mixed
        first = next(self._blocks(), None)
        if first is None:
            raise unreadable(path, "jsonl", ValueError("no rows"))
        parsed = self._parse([], first)
        if parsed.error is not None:
            raise self._located(parsed.error, 0)
        super().__init__(path, "jsonl", pa.schema(list(parsed.others.items())), [path])

    def find_late_columns(self) -> bool:
        """Find the columns that the first block does not have, and return True if there are some."""
        import pyarrow as pa

        found: dict[str, Any] = {}
        with ThreadPoolExecutor(passes.threads()) as pool:
            for _, others, _ in passes.in_order(pool, partial(self._parse, []), self._blocks()):
                for name, kind in others.items():
                    if name not in found or pa.types.is_null(found[name]):
                        found[name] = kind
        late = {name: kind for name, kind in found.items() if name not in self.names}
        self.schema = pa.schema([*self.schema, *late.items()])
        self.names += late
        self.numeric |= {name: is_numeric(kind) for name, kind in late.items()}
        self.late = set()
        return bool(late)

    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]:
        row = 0
        with ThreadPoolExecutor(passes.threads()) as pool:
            for table, others, error in passes.in_order(pool, partial(self._parse, columns), self._blocks()):
                if error is not None:
                    raise self._located(error, row)
                self.late |= others.keys() - {*self.names}
                row += table.num_rows
                yield from table.to_batches()

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of complete lines that are not blank."""
        import pyarrow as pa

        with pa.input_stream(str(self.path), compression="detect") as stream:
            waiting: list[bytes] = []
            size, first = 0, True
            while piece := stream.read(BLOCK):
                if first:
                    piece, first = piece.removeprefix(b"\xef\xbb\xbf"), False
                end = piece.rfind(b"\n") + 1
                if end:
                    block = b"".join([*waiting, piece[:end]])
                    if not block.isspace():
                        yield block
                    waiting, size = [], 0
                waiting.append(piece[end:])
                size += len(piece) - end
                if size > _LONGEST_LINE:
                    raise TableError(self.path, None, f"a line of more than {_LONGEST_LINE >> 20} MB", _OBJECT)
            if (block := b"".join(waiting)) and not block.isspace():
                yield block

    def _parse(self, columns: Sequence[str], block: bytes) -> _Parsed:
        """Return the wanted columns of a block of lines as an Arrow table, and the types of the other columns."""
        try:
            return self._quickly(columns, block) or self._slowly(columns, block)
        except _BadRow as error:
            return _Parsed(None, {}, error)

    def _quickly(self, columns: Sequence[str], block: bytes) -> _Parsed | None:
        """Parse a block of lines with pyarrow; return None if values may have changed, or have other types."""
        import pyarrow as pa
        import pyarrow.json as arrow_json

        types = {name: self._type(name) for name in columns}
        if None in types.values():
            return None
        parse = arrow_json.ParseOptions(pa.schema(list(types.items())), unexpected_field_behavior="infer")
        read = arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            table = arrow_json.read_json(pa.BufferReader(block), read, parse)
        except pa.ArrowInvalid:
            return None
        floats = [name for name in columns if self._is_id(name) and pa.types.is_floating(types[name])]
        if any((np.abs(table.column(name).to_numpy()) >= _EXACT).any() for name in floats):
            return None
        others = {field.name: field.type for field in table.schema if field.name not in types}
        dates = {name: pa.string() for name, kind in others.items() if pa.types.is_timestamp(kind)}
        return _Parsed(table.select(columns), others | dates)

    def _slowly(self, columns: Sequence[str], block: bytes) -> _Parsed:
        """Parse a block of lines with Python's parser."""
        import pyarrow as pa

        rows = _objects(block)
        arrays = []
        for name in columns:
            values = [row.get(name) for row in rows]
            arrays.append(self._array(name, values))
            if self._is_id(name):
                self._kinds[name] = _kind_of(values)
        others = {}
        for name in dict.fromkeys(name for row in rows for name in row if name not in columns):
            values = [row.get(name) for row in rows]
            # A key with numbers and text is a feature with mistakes, unless the user gives it another purpose.
            numbers = any(isinstance(value, int | float) for value in values)
            others[name] = _kind_of(values) or (pa.float64() if numbers else pa.string())
        return _Parsed(pa.table(arrays, names=list(columns)), others)

    def _array(self, name: str, values: list[Any]) -> Any:
        """Return the values of a key as an Arrow array: numbers of a feature, or texts of ids and categories."""
        import pyarrow as pa

        if self.numeric[name] and not self._is_id(name):
            return pa.array([_number(name, value, row) for row, value in enumerate(values)], pa.float64())
        row = 0
        try:
            texts = []
            for row, value in enumerate(values):
                if name in self.ids:
                    texts.append(id_text(value, row) or None)
                elif name in self.categorical:
                    texts.append(category_text(value, name))
                else:
                    texts.append(value if value is None or isinstance(value, str) else json.dumps(value))
                (texts[-1] or "").encode()
        except BadId as error:
            raise _BadRow(row, f"{error.got} in column {name!r}", error.must.partition(" ")[2]) from None
        except (TypeError, UnicodeEncodeError) as error:
            expected = "a text or a number" if isinstance(error, TypeError) else "text in UTF-8"
            raise _BadRow(row, f"{ascii(values[row])[:_SHOWN]} in column {name!r}", expected) from None
        return pa.array(texts, pa.string())

    def _type(self, name: str) -> Any:
        """Return the type to read a key with; None if Python must read it."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        if not self._is_id(name):
            return kind if pa.types.is_boolean(kind) else pa.float64() if self.numeric[name] else pa.string()
        if name not in self._kinds:
            texts = pa.types.is_null(kind) or pa.types.is_string(kind)
            exact = kind in (pa.int64(), pa.float64())
            self._kinds[name] = pa.string() if texts else kind if exact else None
        return self._kinds[name]

    def _is_id(self, name: str) -> bool:
        return name in self.ids or name in self.categorical

    def _located(self, error: _BadRow, first: int) -> TableError:
        return TableError(self.path, first + error.row + 1, error.wrong, error.expected)


def _objects(block: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects in a block of lines."""
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        row = block.count(b"\n", 0, error.start)
        raise _BadRow(row, "text that is not UTF-8", "a file in UTF-8") from None
    rows: list[dict[str, Any]] = []
    decode = json.JSONDecoder(object_pairs_hook=_distinct, strict=False).raw_decode
    place = _BLANK.match(text).end()  # type: ignore[union-attr]
    while place < len(text):
        try:
            row, place = decode(text, place)
        except (ValueError, RecursionError) as error:
            why = str(error).partition(": line")[0]
            raise _BadRow(len(rows), f"not JSON ({why})", f"{_OBJECT} (is the file truncated?)") from None
        if not isinstance(row, dict):
            raise _BadRow(len(rows), f"a JSON {type(row).__name__}", _OBJECT)
        rows.append(row)
        place = _BLANK.match(text, place).end()  # type: ignore[union-attr]
    return rows


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def _number(name: str, value: Any, row: int) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        wrong = f"{json.dumps(value)[:_SHOWN]} in column {name!r}"
        raise _BadRow(row, wrong, "a number (or exclude the column with drop=)")
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _kind_of(values: list[Any]) -> Any:
    """Return the Arrow type that keeps the values of a key; None if there is none."""
    import pyarrow as pa

    given = [value for value in values if value is not None]
    kinds = {*map(type, given)}
    if kinds == {int}:
        if min(given) >= -(2**63) and max(given) < 2**63:
            return pa.int64()
        return pa.uint64() if min(given) >= 0 and max(given) < 2**64 else None
    if kinds and kinds <= {int, float}:
        return pa.float64() if all(value != value or abs(value) < _EXACT for value in given) else None
    return {(): pa.string(), (str,): pa.string(), (bool,): pa.bool_()}.get(tuple(kinds))
