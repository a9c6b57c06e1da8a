"""The LETOR reader against a slow, plain one and scikit-learn's, on text that chance has broken in many ways."""

import gzip
import io
import lzma
import random
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import references_letor as reference
from sklearn.datasets import load_svmlight_file

from rankgrad.data import memory_limits
from rankgrad.data.letor import read_letor, streams
from rankgrad.data.letor.errors import LetorError

FILES = 10  # an attempt
ENDS = ("refused", "read", "read by all", "damaged", "too large")  # rising in how seldom they are
NUMBERS = [
    "0",
    "1",
    "2.5",
    "-0",
    ".5",
    "5.",
    "1e-3",
    "1E+05",
    "0.1234567890123456789",
    "123456789012345678901234",
    "1e-50",
]
ODD = [
    "nan",
    "-INF",
    "Infinity",
    "1e39",
    "-1.8e308",
    "1e400",
    "3.4028235e38",
    "3.4028236e38",
    "x",
    "",
    "1e",
    ".",
    "--1",
]
ODD += ["1_0", "0x1", "naninity", "+", "1,5", "9" * 400, "0e" + "9" * 30, "1e-" + "9" * 30]
IDS = ["0", "-1", "01", "1000001", "4000000000", "18446744073709551617", "a", "", "+1", "1.0", "0" * 20 + "1"]
QIDS = ["7", "07", "-3", "a b", "ümlaut", "q:1", "", "x" * 255, "x" * 256, "9" * 18, "9" * 19, "\x01", "qid:"]
COMMENTS = ["", "#", "# doc 1", "#docid = GX01 inc = 1", "# docid=", "#DOCID =x y", "# é#:1", "#" + "é" * 256, "# \x00"]
BYTES = [b"\0", b"\r", b"\n", b"\xff", b" ", b":", b"#", b"\t", b"\xc3", b"\xed\xa0\x80", b"1", b"\x1c", b"\x7f"]


def one_of(chance: random.Random, usual: str, odd: list[str], often: float = 0.01) -> str:
    return chance.choice(odd) if chance.random() < often else usual


def a_line(chance: random.Random, qid: int, width: int, dense: bool) -> str:
    label = one_of(chance, str(chance.randrange(5)), NUMBERS + ODD + ["-1"])
    tokens = [label, "qid:" + one_of(chance, str(qid), QIDS)]
    for feature in range(1, width + 1):
        if dense or chance.random() < 0.7:
            name = one_of(chance, str(feature), [*IDS, str(width + 1), str(chance.randint(1, width))], 0.003)
            tokens.append(f"{name}:{one_of(chance, chance.choice(NUMBERS), ODD, 0.005)}")
    if chance.random() < 0.005:
        chance.shuffle(tokens)
    space = one_of(chance, " ", ["  ", "\t", "\x0b", " \r", ""], 0.02)
    return space.join(tokens) + one_of(chance, "", COMMENTS, 0.2)


def a_file(chance: random.Random) -> bytes:
    width, dense, qid = chance.randint(1, 6), chance.random() < 0.5, 1
    end, lines = chance.choice(["\n", "\n", "\r\n"]), []
    for _ in range(chance.choice([0, 1, 3, 15, 40])):
        qid += chance.random() < 0.2
        line = a_line(chance, one_of(chance, qid, [1, qid - 1]), width, dense)
        lines.append(one_of(chance, line, ["", " ", "# a comment", "\t# 1 qid:1 1:1"], 0.05))
    data = end.join(lines).encode() + (end.encode() if chance.random() < 0.7 else b"")
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        at = chance.randint(0, len(data))
        data = data[:at] + chance.choice([b"", *BYTES]) + data[at + chance.choice([0, 1, 5]) :]
    return data[: chance.randint(0, len(data))] if chance.random() < 0.1 else data


def same_as_scikit_learn(data: bytes, width: int, features: np.ndarray, labels: np.ndarray) -> bool:
    """Compare with scikit-learn's reader, where it takes the text, too; says whether it does."""
    try:
        x, y, _ = load_svmlight_file(io.BytesIO(data), n_features=width, zero_based=False, query_id=True)
    except (ValueError, OverflowError):
        return False
    with np.errstate(over="ignore"):
        assert np.array_equal(x.toarray().astype(np.float32), features)
        assert np.array_equal(y.astype(np.float32), labels)
    return True


def compare(path: Path, data: bytes, chance: random.Random) -> str:
    """Read one text with all readers and see that they agree; says how it went."""
    pack = chance.choice([None, None, None, None, gzip.compress, lzma.compress])
    packed, damaged = data if pack is None else pack(data), False
    if pack is not None and chance.random() < 0.3:
        at, damaged = chance.randrange(len(packed)), True
        packed = packed[:at] + bytes([chance.randrange(256)] * chance.randint(0, 3)) + packed[at + 1 :]
    path.write_bytes(packed)
    features = chance.choice([None, None, 6, 3])
    missing = chance.choice([None, None, -7.5])
    options = {"features": features, "missing": "error" if missing is None else missing}
    if damaged:
        try:
            read_letor(path, **options)
        except LetorError as error:
            return "damaged" if str(error).startswith(str(path)) else pytest.fail(str(error))
    expected, bad = None, 0
    try:
        expected = reference.read(data, features, missing)
    except reference.BadLine as error:
        bad = error.args[0]
    if expected is None:
        with pytest.raises(LetorError) as caught:
            read_letor(path, **options)
        if "makes the data too large" in str(caught.value):
            return "too large"
        assert caught.value.line == bad, caught.value
        assert "cannot be read" not in str(caught.value)
        return "refused"
    width = features or max(max(found.pairs, default=0) for found in expected)
    text = len(data.removeprefix(b"\xef\xbb\xbf"))
    if features is None and 4 * width * len(expected) > max(memory_limits.FREE, memory_limits.RATIO * text):
        first = next(found.line for found in expected if width in found.pairs)
        with pytest.raises(LetorError, match="makes the data too large") as caught:
            read_letor(path, **options)
        assert caught.value.line == first, caught.value
        return "too large"
    got = read_letor(path, **options)
    assert got.features.tobytes() == reference.matrix(expected, width).tobytes()
    assert got.labels.tolist() == [found.label for found in expected]
    assert [str(qid) for qid in got.row_qids] == [found.qid.decode() for found in expected]
    docids = [found.docid for found in expected]
    assert got.docids.tolist() == docids if any(docids) else got.docids is None
    if missing is None and same_as_scikit_learn(data, width, got.features, got.labels):
        return "read by all"
    return "read"


def case(rng: np.random.Generator, folder: Path) -> str:
    """Some files; all must end alike with every reader. Says how the oddest one ended."""
    chance, ended = random.Random(int(rng.integers(2**62))), ENDS[0]
    for _ in range(FILES):
        data = a_file(chance)
        if chance.random() < 0.1 and data.endswith(b"\n"):
            data += b"1 qid:last %d:1\n" % chance.choice([300, 40_000])
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            continue
        block, free = chance.choice([1, 64, 300, 4 << 20]), chance.choice([*[memory_limits.FREE] * 2, 3000])
        limits = patch.object(streams, "BLOCK", block), patch.object(memory_limits, "FREE", free)
        with limits[0], limits[1], warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                ended = max(ended, compare(folder / "attack.txt", data, chance), key=ENDS.index)
            except BaseException as error:
                raise AssertionError(f"{error!r} for {data!r}") from error
    return ended
