"""Powers of ten by which the Numba parser converts decimal text to the nearest double, in integer arithmetic.

A number is read as `mantissa * 10**exponent`. If both fit a double exactly (mantissa up to 2**53, exponent up to 22),
one multiplication or division rounds correctly. Otherwise the parser multiplies the mantissa by the first 128 bits of
the power of five (Lemire, "Number Parsing at a Gigabyte per Second", 2021), which decides the rounding in all but rare
cases; those, and numbers of more than 19 digits, go to Python's `float`.
"""

import numpy as np
from numpy.typing import NDArray

# Range of q. Values are stored in float32: with a mantissa of up to 19 digits, a value outside is 0 or too large.
LOWEST, HIGHEST = -69, 39

EXACT_POWERS: NDArray[np.float64] = np.array([float(10**power) for power in range(23)])


def powers_of_five() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the upper and lower 64 bits of `5**q`, scaled to 128 bits, for q from `LOWEST` to `HIGHEST`.

    As the proof in the paper requires, reciprocals of powers that fit 64 bits are rounded up, all others down.

    Example:
        >>> upper, lower = powers_of_five()
        >>> hex(upper[-LOWEST]), hex(upper[1 - LOWEST]), hex(lower[-1 - LOWEST])
        ('0x8000000000000000', '0xa000000000000000', '0xcccccccccccccccd')
    """
    bits = [_scaled(power) for power in range(LOWEST, HIGHEST + 1)]
    upper = np.array([value >> 64 for value in bits], dtype=np.uint64)
    return upper, np.array([value & (2**64 - 1) for value in bits], dtype=np.uint64)


def _scaled(power: int) -> int:
    if power >= 0:
        value = 5**power
        shift = 128 - value.bit_length()
        return value << shift if shift >= 0 else value >> -shift
    value = 5**-power
    reciprocal = 2 ** (value.bit_length() + 127) // value  # from 2**127 up to 2**128
    return reciprocal + 1 if power >= -27 else reciprocal
