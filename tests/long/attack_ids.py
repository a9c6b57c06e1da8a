"""Ids of every kind in every format, against a reader that shares no code: plain Python, `json` and `csv`.

A table is refused in one sentence if, and only if, it has an id that cannot be kept. Otherwise, query id, document id,
label and features of all rows are those that plain Python has.
"""

import csv
import io
import json
import math
import random
import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from rankgrad.cli.score_files import writing_scores
from rankgrad.data import from_arrays, from_frame, open_cache, read_table, write_cache, write_parquet
from rankgrad.data.tables.reader import stream_table

TABLES = 5  # an attempt
ENDS = ("read", "refused")
TEXTS = ["2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00", "2024-01-02", "12:30", "a", "b", "q1", "Q1"]
TEXTS += ["007", "7", "+7", "-7", "-0", "0", "1.0", "1e5", "0x10", "1_000", "٣", "9" * 30, "9223372036854775808"]
TEXTS += ["NA", "null", "nan", "None", "true", " ", " a", "a ", "a\tb", "é", "e\u0301", "日本", "😀", "a\0b", "\ufeffa"]
ODD_TEXTS = ["", "a\0", "\0", "a\nb", "a\r\nb", "a\rb", '"', '"a"', "a,b", "a;b", "a|b", "#", "\\", "\u2028", "\x1c"]
ODD_TEXTS += ["\x7f", "x" * 300, "'", "\\N"]
INTEGERS = [0, 1, -1, 7, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
LARGE = [2**63, 2**64 - 2, 2**64 - 1]
HUGE = [2**64, 10**30, 10**30 + 1, -(2**63) - 1]
FLOATS = [0.0, -0.0, 1.0, 7.0, 1e5, -3.0, 2.0**53 - 1]
ODD_FLOATS = [2.0**53, 1e19, 1e300, 0.5, math.nan, math.inf]
KINDS = ("text", "odd text", "integers", "large", "huge", "floats", "odd floats", "decimals", "bytes", "mixed", "truth")
TYPED = ("parquet", "arrow", "polars", "arrow table")
FORMATS = ("jsonl", "csv", "parquet", "arrow", "pandas", "polars", "arrow table", "arrays")


class CannotBeKept(Exception):
    """An id that must be refused."""


def an_id(chance: random.Random, kind: str, format: str):
    """One id as a Python value."""
    if kind == "mixed":
        choices = ["text", "integers", "large", "huge", "floats", "odd text", "odd floats", "truth"]
        kind = chance.choices(choices, [9, 9, 3, 3, 9, 1, 1, 0.2])[0]
    if kind.startswith("odd") and chance.random() < 0.8:
        kind = kind.removeprefix("odd ")
    usual = {"text": TEXTS, "odd text": ODD_TEXTS, "integers": INTEGERS, "floats": FLOATS, "odd floats": ODD_FLOATS}
    usual |= {"large": INTEGERS[:8] + LARGE, "huge": [*INTEGERS, *LARGE, *HUGE], "truth": [True, False]}
    if kind == "large" and format != "jsonl":
        return chance.choice([abs(each) for each in usual["large"]])
    if kind == "decimals":
        return chance.choice([Decimal("1.00"), Decimal(7), Decimal(10**20), Decimal("0.50"), Decimal(-3)])
    if kind == "bytes":
        return chance.choice([b"a", "é".encode(), b"7", b"\xff"] if chance.random() < 0.1 else [b"a", b"b", b"7"])
    if kind == "odd text" and format in ("jsonl", "arrays") and chance.random() < 0.05:
        return "\ud800"  # only Python and JSON have such a text
    return chance.choice(usual[kind])


def kept(value) -> str:
    """The text of an id, by the rule of the documentation; a missing id is empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise CannotBeKept(value) from None
    if isinstance(value, str):
        if value.endswith("\0") or any(0xD800 <= ord(each) < 0xE000 for each in value):
            raise CannotBeKept(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise CannotBeKept(value)
    if isinstance(value, float) and not abs(value) < 2**53:
        raise CannotBeKept(value)
    if value != int(value):
        raise CannotBeKept(value)
    return str(int(value))


def expected(rows: list[dict]) -> Counter:
    """What plain Python reads: query id, document id, label and features of each row."""
    found = []
    for row in rows:
        if not (qid := kept(row.get("qid"))):
            raise CannotBeKept("no query id")
        features = tuple(np.float32(row[name]).item() if row.get(name) is not None else "NaN" for name in ("x", "late"))
        found.append((qid, kept(row.get("docid")), float(row["label"]), features))
    return Counter(found)


def rows_of(data) -> Counter:
    names = data.feature_names or ("x", "late")
    columns = [data.features[:, names.index(name)].tolist() if name in names else None for name in ("x", "late")]
    found = []
    for row, (qid, label) in enumerate(zip(data.row_qids.tolist(), data.labels.tolist(), strict=True)):
        values = [None if column is None else column[row] for column in columns]
        features = tuple("NaN" if value is None or math.isnan(value) else value for value in values)
        found.append((str(qid), "" if data.docids is None else str(data.docids[row]), label, features))
    return Counter(found)


def a_column(chance: random.Random, kind: str, values: list, format: str):
    """Ids as an Arrow array of a random type that has them all."""
    types = {"integers": [pa.int64()], "large": [pa.uint64()], "bytes": [pa.binary(), pa.large_binary()]}
    types |= {"floats": [pa.float64()], "odd floats": [pa.float64()], "truth": [pa.bool_()]}
    types |= {"decimals": [pa.decimal128(30, 2), *([] if format == "polars" else [pa.decimal256(60, 4)])]}
    made = pa.array(values, chance.choice(types.get(kind, [pa.string(), pa.large_string()])))
    if chance.random() < 0.3:
        inside = chance.choice(["mask", "encode"]) if format.startswith("arrow") else "mask"
        made = made.dictionary_encode(null_encoding=inside)
    return made


def a_table(chance: random.Random, folder: Path):
    """Return rows as plain Python has them, and a function that reads the same rows with rankgrad."""
    format = chance.choice(FORMATS)
    kinds = [each for each in KINDS if format not in TYPED or each not in ("huge", "mixed")]
    kinds = [each for each in kinds if format not in ("jsonl", "csv") or each not in ("bytes", "decimals")]
    ids = {role: chance.choice(kinds) for role in ("qid", "docid")}
    count = chance.choice([1, 3, 20, 60])
    late = chance.choice([0, 0, count // 2, count - 1]) if format == "jsonl" else 0
    nulls = {"qid": chance.choice([0, 0, 0, 0.05]), "docid": chance.choice([0, 0, 0.3, 1])}
    rows = []
    for row in range(count):
        made = {"label": chance.randrange(3), "x": float(np.float32(chance.gauss(0, 1)))}
        for role, kind in ids.items():
            made[role] = None if chance.random() < nulls[role] else an_id(chance, kind, format)
        if row >= late:
            made["late"] = chance.randrange(9)
        rows.append(made)
    if format == "jsonl":
        return json_lines(chance, rows, folder / "t.jsonl")
    if format == "csv":
        return a_csv_file(chance, rows, folder / "t.csv")
    columns = {name: [row[name] for row in rows] for name in ("qid", "docid", "label", "x", "late")}
    if format == "arrays":
        X = np.array([columns["x"], columns["late"]], np.float32).T
        qid, docids = (chance.choice([list, as_objects])(columns[role]) for role in ids)
        return rows, lambda: [from_arrays(X, columns["label"], qid=qid, docids=docids)[0]]
    if format == "pandas":
        frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
        frame = frame.astype({"label": float, "x": float, "late": float})
        for role, kind in ids.items():
            if kind == "integers" and chance.random() < 0.7:
                frame[role] = pd.array(columns[role], dtype=chance.choice(["Int64", "int64[pyarrow]"]))
            elif kind == "text" and chance.random() < 0.5:
                frame[role] = frame[role].astype(chance.choice(["str", "category", "string"]))
        return rows, lambda: [from_frame(frame)]
    columns |= {role: a_column(chance, ids[role], columns[role], format) for role in ids}
    table = pa.table(columns)
    if format == "parquet":
        parquet.write_table(table, folder / "t.parquet", row_group_size=chance.choice([1, 7, 100]))
    elif format == "arrow":
        feather.write_feather(table, folder / "t.arrow", chunksize=chance.choice([1, 7, 100]))
    else:
        frame = pl.from_arrow(table) if format == "polars" else table
        return rows, lambda: [from_frame(frame)]
    return rows, read_file(chance, folder / f"t.{format}")


def json_lines(chance: random.Random, rows: list[dict], path: Path):
    """Write rows with `json`. A value that is None may be left out."""
    rows = [{name: row[name] for name in row if row[name] is not None or chance.random() < 0.5} for row in rows]
    rows[0].setdefault("qid", None)
    escaped = chance.random() < 0.5 or any("\ud800" in (row.get("qid"), row.get("docid")) for row in rows)
    lines = [json.dumps(row, ensure_ascii=escaped) for row in rows]
    path.write_text("\n".join(lines) + chance.choice(["", "\n", "\n\n"]), encoding="utf-8")
    return [json.loads(line) for line in lines], read_file(chance, path)


def a_csv_file(chance: random.Random, rows: list[dict], path: Path):
    """Write rows with `csv`, and read them again with `csv`, because the file has no types."""
    text, delimiter = io.StringIO(), chance.choice(",;\t|")
    names = chance.sample([*rows[0]], len(rows[0]))
    carriage = any("\r" in f"{row['qid']}{row['docid']}" for row in rows)
    quoting = csv.QUOTE_ALL if carriage else chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    ends = chance.choice(["\n", "\r\n"])
    table = csv.DictWriter(text, names, delimiter=delimiter, lineterminator=ends, quoting=quoting)
    table.writeheader()
    table.writerows(rows)
    path.write_bytes(text.getvalue().encode())
    read = [*csv.DictReader(io.StringIO(text.getvalue(), newline=""), delimiter=delimiter)]
    return [{**row, "x": float(row["x"]), "late": float(row["late"])} for row in read], read_file(chance, path)


def as_objects(values: list) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_file(chance: random.Random, path: Path):
    """A function that reads a file in a random way: at once, through a cache, or written and read again."""
    way = chance.choice(["at once", "cache", "again", "stream"])
    ending = chance.choice(["csv", "parquet"])
    block = chance.choice([64, 1000, 4 << 20]) if path.suffix == ".jsonl" else 4 << 20

    def read():
        with patch("rankgrad.data.tables.json_lines.BLOCK", block):
            if way == "cache":
                read_table(path, regroup=True, missing="nan", cache=path.parent / "cache")
                return [read_table(path, regroup=True, missing="nan", cache=path.parent / "cache")]
            data = read_table(path, regroup=True, missing="nan")
        if way == "again":
            write_parquet(data, path.parent / "again.parquet")
            write_cache(data, path.parent / "again")
            read = read_table(path.parent / "again.parquet", missing="nan")
            return [data, read, open_cache(path.parent / "again"), scored(path.parent / f"scores.{ending}", data)]
        return [data, streamed(path, data)] if way == "stream" and data.rows is None else [data]

    return read


def streamed(path: Path, data):
    """The same data set from a stream, which has no labels."""
    parts = [*stream_table(path, missing="nan", documents=1)]
    docids = None if parts[0].docids is None else np.concatenate([part.docids.astype(object) for part in parts])
    qids = np.concatenate([part.qids.astype(object) for part in parts])
    features = np.concatenate([part.features for part in parts])
    assert np.array_equal(np.concatenate([part.lengths for part in parts]), data.lengths)
    return replace(data, features=features, qids=qids, docids=docids)


def scored(path: Path, data):
    """The same data set with the ids in a file of scores."""
    with writing_scores(path.suffix[1:], str(path), "tag", {}) as writer:
        writer.write(data, data.labels)
    if path.suffix == ".parquet":
        read = parquet.read_table(path).to_pylist()
    else:
        with path.open(newline="", encoding="utf-8") as file:
            read = [*csv.DictReader(file)]
    if data.rows is not None:
        read = [read[row] for row in data.rows.tolist()]
    qids = np.array([read[row]["qid"] for row in data.offsets[:-1]], dtype=object)
    docids = None if data.docids is None else as_objects([row["docid"] for row in read])
    assert [str(row["qid"]) for row in read] == [str(qid) for qid in data.row_qids.tolist()]
    return replace(data, qids=qids, docids=docids)


def compare(rows: list[dict], read) -> str:
    try:
        wanted = expected(rows)
    except CannotBeKept:
        wanted = None
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            found = read()
        except (ValueError, TypeError) as error:
            text = str(error)
            assert wanted is None, f"refused: {text}"
            assert "\n" not in text, text
            assert len(text) < 600, text
            assert " row " in text, text
            assert ("must" in text and "; got " in text) or ("; expected " in text and "t." in text), text
            return "refused"
    assert wanted is not None, "was read"
    for data in found:
        got = rows_of(data)
        assert got == wanted, f"{got - wanted} for {wanted - got}"
    return "read"


def case(rng: np.random.Generator, folder: Path) -> str:
    """Some tables; all must be read as plain Python reads them, or refused. Says how the oddest one ended."""
    chance, ended = random.Random(int(rng.integers(2**62))), ENDS[0]
    for number in range(TABLES):
        (inner := folder / str(number)).mkdir()
        rows, read = a_table(chance, inner)
        try:
            ended = max(ended, compare(rows, read), key=ENDS.index)
        except BaseException as error:
            raise AssertionError(
                f"{type(error).__name__}: {error} for {read.__qualname__} of {rows!r:.3000}"
            ) from error
    return ended
