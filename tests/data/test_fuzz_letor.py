"""Numbers in LETOR text, against Python's own. Files that are broken by chance are in `long/attack_letor.py`."""

import random

import numpy as np

from rankgrad.data.letor.reader import read_letor


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
    from rankgrad.data.letor.decimals import HIGHEST, LOWEST
    from rankgrad.data.letor.parser import _nearest_double

    chance = random.Random(6)
    unsure = 0
    for _ in range(50_000):
        mantissa, exponent = chance.getrandbits(chance.randint(1, 64)) or 1, chance.randint(LOWEST, HIGHEST)
        value, sure = _nearest_double(np.uint64(mantissa), exponent)
        unsure += not sure
        assert not sure or value == float(f"{mantissa}e{exponent}"), (mantissa, exponent)
    assert unsure < 10
