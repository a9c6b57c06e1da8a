"""The LETOR reader against a slow, plain one, on text that is broken in every way that chance finds."""

import random
import time

import numpy as np
import pytest
import references_letor as reference

from rankgrad.data import streams
from rankgrad.data.faults import LetorError
from rankgrad.data.letor import read_letor

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


def compare(path, data: bytes, chance: random.Random) -> str:
    """Read one text with both readers and see that they agree; says how it went."""
    path.write_bytes(data)
    features = chance.choice([None, None, 6, 3])
    missing = chance.choice([None, None, -7.5])
    expected, bad = None, 0
    try:
        expected = reference.read(data, features, missing)
    except reference.BadLine as error:
        bad = error.args[0]
    if expected is None:
        with pytest.raises(LetorError) as caught:
            read_letor(path, features=features, missing="error" if missing is None else missing)
        assert caught.value.line == bad, caught.value
        assert "cannot be read" not in str(caught.value)
        return "refused"
    got = read_letor(path, features=features, missing="error" if missing is None else missing)
    width = features or max(max(found.pairs, default=0) for found in expected)
    assert got.features.tobytes() == reference.matrix(expected, width).tobytes()
    assert got.labels.tolist() == [found.label for found in expected]
    assert [str(qid) for qid in got.row_qids] == [found.qid.decode() for found in expected]
    docids = [found.docid for found in expected]
    assert got.docids.tolist() == docids if any(docids) else got.docids is None
    return "read"


def fuzz(path, seconds: float, first: int, monkeypatch) -> None:
    went = {"read": 0, "refused": 0}
    compare(path, b"1 qid:1 1:1\n", random.Random(first))  # compiles, which is not what the seconds are for
    stop = time.monotonic() + seconds
    seed = first
    while time.monotonic() < stop:
        seed += 1
        chance = random.Random(seed)
        data = a_file(chance)
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            continue
        monkeypatch.setattr(streams, "BLOCK", chance.choice([1, 64, 300, 4 << 20]))
        try:
            went[compare(path, data, chance)] += 1
        except BaseException:
            print(f"seed {seed}: {data!r}")
            raise
    assert min(went.values()) > 10, went


def test_agrees_with_the_slow_reader(tmp_path, monkeypatch):
    fuzz(tmp_path / "fuzz.txt", 2.0, 0, monkeypatch)


@pytest.mark.long
def test_agrees_with_the_slow_reader_for_a_minute(tmp_path, monkeypatch):
    fuzz(tmp_path / "fuzz.txt", 60.0, 1_000_000, monkeypatch)


def test_numbers_are_those_of_python(tmp_path):
    chance = random.Random(5)

    def decimal() -> str:
        digits = "".join(chance.choices("0123456789", k=chance.randint(1, 25)))
        point = chance.randint(0, len(digits))
        exponent = chance.choice(["", f"e{chance.randint(-75, 45)}", f"E+{chance.randint(0, 9):02d}"])
        return chance.choice("+- ").strip() + digits[:point] + "." + digits[point:] + exponent

    # Half way between two doubles of which one is half way between two float32: both roundings go to the even one.
    halves = [str(2**60 + (2 * k + 1) * 2**36 + side * 2**7) for k in range(50) for side in (-1, 1)]
    texts = [decimal() for _ in range(20_000)] + [repr(chance.gauss(0, 1)) for _ in range(20_000)] + halves
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"0 qid:1 1:{text}\n" for text in texts))
    with np.errstate(over="ignore"):
        values = np.array([float(text) for text in texts]).astype(np.float32) + np.float32(0)
    values[~np.isfinite(values)] = -1
    got = read_letor(path, missing=-1.0).features[:, 0]
    wrong = np.flatnonzero(got.view(np.uint32) != values.view(np.uint32))
    assert not len(wrong), [(texts[i], got[i], values[i]) for i in wrong[:5]]


def test_doubles_are_those_of_python():
    from rankgrad.data.decimals import HIGHEST, LOWEST
    from rankgrad.data.parser import _nearest_double

    chance = random.Random(6)
    unsure = 0
    for _ in range(50_000):
        mantissa, exponent = chance.getrandbits(chance.randint(1, 64)) or 1, chance.randint(LOWEST, HIGHEST)
        value, sure = _nearest_double(np.uint64(mantissa), exponent)
        unsure += not sure
        assert not sure or value == float(f"{mantissa}e{exponent}"), (mantissa, exponent)
    assert unsure < 10
