"""Open table files: CSV, TSV, JSON lines and Arrow files, and Parquet files or folders. Rows are read in batches."""

import base64
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rankgrad.data.tables.errors import TableError, some, unreadable
from rankgrad.data.tables.json_lines import JsonFile
from rankgrad.data.tables.table_file import BLOCK, TableFile, UseBlock, dictionaries
from rankgrad.errors import bad_value, one_of

_COMPRESSED = (".gz", ".bz2", ".zst")
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
_BATCH = 16 << 20  # approximate number of bytes of the columns in a batch
_COLUMNS = 48 << 20  # approximate number of bytes of the columns in a block of a Parquet file
_FEWEST, _MOST = 1024, 65_536  # rows per batch
_MOST_OPEN = 64  # number of files that stay open between the passes
_WIDTH = 16  # columns per block of a Parquet file: 16 features are one cache line


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a table, which the ending of its name determines; None if the path is not a table.

    A folder is a table if the folder or one of its subfolders contains Parquet files.

    Example:
        >>> format_of("clicks.csv.gz"), format_of("test.parquet"), format_of("train.txt")
        ('csv', 'parquet', None)
    """
    path = Path(path)
    name = path.name.lower()
    for compressed in _COMPRESSED:
        name = name.removesuffix(compressed)
    found = ENDINGS.get(os.path.splitext(name)[1])
    if path.is_dir():
        return "parquet" if next(_parquet_files(path), None) is not None else None
    return found


def open_table(path: str | os.PathLike[str], format: str | None = None) -> "TableFile":
    """Open a table and read the names of its columns; `batches` reads the rows.

    Args:
        path: path of a file, or of a folder with Parquet files.
        format: `csv`, `tsv`, `jsonl`, `parquet` or `arrow`; with None, the ending of the name determines the format.
    """
    path = Path(path)
    if format is None:
        format = format_of(path)
        if format is None:
            bad_value("path", f"end with {', '.join(ENDINGS)} or be a folder with Parquet files", str(path))
    one_of("format", format, FORMATS)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; expected a table ({format})")
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("table files need pyarrow: pip install 'rankgrad[frames]'") from error
    kinds: dict[str, Any] = {
        "csv": CsvFile,
        "tsv": CsvFile,
        "jsonl": JsonFile,
        "parquet": ParquetFiles,
        "arrow": ArrowFile,
    }
    try:
        table: TableFile = kinds[format](path)
    except UnicodeDecodeError as error:
        raise TableError(path, None, "a header that is not UTF-8", "a file in UTF-8") from error
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, format, error) from error
    if repeated := [name for name in dict.fromkeys(table.names) if table.names.count(name) > 1]:
        raise TableError(path, None, f"the column names {some(repeated)} occur several times", "distinct names")
    return table


class ParquetFiles(TableFile):
    """A Parquet file, or a folder of Parquet files in the order of their paths.

    Spark, pandas and polars also write folders such as `year=2024`. Rows in this folder get a column `year` with the
    value 2024.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        files = sorted(_parquet_files(path)) if path.is_dir() else [path]
        self._sources: dict[Path, tuple[Any, Any]] = {}
        opened = pq.ParquetFile(self._source(files[0])[0])
        first, stored = opened.schema_arrow, opened.metadata.metadata
        self._constants: dict[Path, dict[str, Any]] = {file: {} for file in files}
        schema = pa.schema(list(first))
        if path.is_dir():
            whole = ds.dataset([str(file) for file in files], format="parquet", partitioning="hive", schema=None)
            parts = {Path(part.path): part.partition_expression for part in whole.get_fragments()}
            self._constants = {file: ds.get_partition_keys(parts[file]) for file in files}
            added = dict.fromkeys(name for keys in self._constants.values() for name in keys if name not in first.names)
            schema = pa.schema([*first, *(whole.schema.field(name) for name in added)])
        super().__init__(path, "parquet", schema, files)
        self.partitions = tuple(name for name in schema.names if name not in first.names)
        # Parquet has no dictionaries of numbers. The schema of the writer, a copy of which is in the file, has them.
        if (written := (stored or {}).get(b"ARROW:schema")) is not None:
            written_types = dictionaries(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written))))
            self.typed += [name for name in written_types if name in first.names and name not in self.typed]

    def _source(self, file: Path) -> tuple[Any, Any]:
        """Return a file, mapped into memory, and its metadata. It is opened once, unless there are very many files."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if file in self._sources:
            return self._sources[file]
        source = pa.memory_map(str(file))
        found = source, pq.ParquetFile(source).metadata
        if len(self._sources) < _MOST_OPEN:
            self._sources[file] = found
        return found

    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = batch_rows(len(columns))
        for file in self.files:
            constants = {name: value for name, value in self._constants[file].items() if name in columns}
            source, metadata = self._source(file)
            with pq.ParquetFile(source, metadata=metadata, buffer_size=1 << 16, pre_buffer=False) as opened:
                stored = [name for name in columns if name not in constants]
                if absent := [name for name in stored if name not in opened.schema_arrow.names]:
                    raise TableError(file, None, f"no column {some(absent)}", f"the columns of {self.files[0]}")
                for batch in opened.iter_batches(rows, columns=stored, use_threads=threads):
                    arrays = [
                        pa.repeat(pa.scalar(constants[name], self.schema.field(name).type), batch.num_rows)
                        if name in constants
                        else batch.column(name)
                        for name in columns
                    ]
                    yield pa.record_batch(arrays, names=columns)

    def each_block(self, columns: Sequence[str], use: UseBlock) -> int:
        """Divide columns of the table into blocks, and call `use` with each block, in several threads.

        A block is a few columns of one row group, so it fits in the cache of the CPU. The next block uses the same
        memory.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from rankgrad.data.letor.passes import threads

        if any(self._constants.values()):
            return super().each_block(columns, use)
        first, jobs, local = 0, [], threading.local()
        for file in self.files:
            metadata = self._source(file)[1]
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                width = max(1, min(_WIDTH, _COLUMNS // max(8 * rows, 1)))
                jobs += [(file, metadata, group, first, left, width) for left in range(0, len(columns), width)]
                first += rows

        def read(job: tuple[Path, Any, int, int, int, int]) -> None:
            file, metadata, group, row, left, width = job
            if getattr(local, "file", None) != file:
                local.file, local.opened = file, pq.ParquetFile(self._source(file)[0], metadata=metadata)
            names = list(columns[left : left + width])
            table = local.opened.read_row_group(group, columns=names, use_threads=False).select(names)
            for batch in table.to_batches():
                use(batch, row, left)
                row += batch.num_rows

        try:
            with ThreadPoolExecutor(threads()) as pool:
                for _ in pool.map(read, jobs):
                    pass
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._explain(error, list(columns)) from error
        return first


class ArrowFile(TableFile):
    """An Arrow file (also called Feather) or a file with an Arrow stream. The file is mapped into memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "arrow", self._open(path)[1].schema, [path])

    @staticmethod
    def _open(path: Path) -> tuple[Any, Any]:
        import pyarrow as pa

        source = pa.memory_map(str(path))
        try:
            return source, pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            return source, pa.ipc.open_stream(source)

    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]:
        source, reader = self._open(self.path)
        rows = batch_rows(len(columns))
        with source:
            count = getattr(reader, "num_record_batches", None)
            for batch in reader if count is None else map(reader.get_batch, range(count)):
                chosen = batch.select(columns)
                for start in range(0, chosen.num_rows, rows):
                    yield chosen.slice(start, rows)


class CsvFile(TableFile):
    """A CSV file with a header. The delimiter of `.csv` is the most frequent of `,`, `;`, tab and `|` in the header.

    The first block determines the types of the columns. Integers become float64.
    """

    is_text = True

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        format = "tsv" if ".tsv" in path.name.lower() else "csv"
        self.delimiter = _delimiter(path, format)
        self.path, self.names = path, []
        try:
            with pa.input_stream(str(path), compression="detect") as stream:
                schema = self._reader(stream, None, False).schema
        except pa.ArrowInvalid as error:
            raise self._located(str(error)) or error from None
        super().__init__(path, format, schema, [path])

    def _batches(self, columns: list[str], threads: bool) -> Iterator[Any]:
        import pyarrow as pa

        types = {}
        for name in columns:
            kind = self.schema.field(name).type
            number = self.numeric[name] and name not in {*self.ids, *self.categorical}
            types[name] = kind if pa.types.is_boolean(kind) and number else pa.float64() if number else pa.string()
        with pa.input_stream(str(self.path), compression="detect") as stream:
            for batch in self._reader(stream, types, threads):
                yield batch.select(columns)

    def _reader(self, stream: Any, types: Mapping[str, Any] | None, threads: bool) -> Any:
        import pyarrow.csv as csv

        # Text such as NA may be a query. Only columns of numbers have missing values.
        convert = csv.ConvertOptions(strings_can_be_null=False)
        if types is not None:
            convert.column_types, convert.include_columns = dict(types), list(types)
        read = csv.ReadOptions(block_size=BLOCK, use_threads=threads)
        return csv.open_csv(stream, read, csv.ParseOptions(delimiter=self.delimiter), convert)

    def _explain(self, error: Exception, columns: list[str]) -> Exception:
        """Return the error in a table file with its row. To find the row, the file is read again with one thread."""
        import pyarrow as pa

        try:
            for _ in self._batches(columns, False):
                pass
        except (pa.ArrowException, OSError) as again:
            error = again
        return self._located(str(error)) or unreadable(self.path, self.format, error)

    def _located(self, text: str) -> TableError | None:
        row = re.search(r"Row #(\d+)", text)
        number = int(row[1]) - 1 if row else None  # the header is row 1 in the message
        if found := re.search(r"In CSV column #(\d+).*invalid value '(.*)'", text, re.DOTALL):
            column = self.names[int(found[1])]
            kind = "a number" if self.numeric[column] else "text in UTF-8"
            return TableError(self.path, number, f"{found[2][:80]!r} in column {column!r}", kind)
        if found := re.search(r"Expected (\d+) columns, got (\d+)", text):
            return TableError(self.path, number, f"{found[2]} values", f"{found[1]} values, as in the header")
        return None


def batch_rows(columns: int) -> int:
    """Return the number of table rows per batch; more columns mean fewer rows, so each batch needs little memory."""
    return max(_FEWEST, min(_MOST, _BATCH // (8 * max(columns, 1))))


def _parquet_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.suffix.lower() in (".parquet", ".pq") and not hidden and path.is_file():
            yield path


def _delimiter(path: Path, format: str) -> str:
    if format == "tsv":
        return "\t"
    import pyarrow as pa

    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8", "replace")
    return max(",;\t|", key=header.count)  # the first of equals
