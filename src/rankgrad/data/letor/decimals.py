"""Decimal text to the nearest double, in integers: the powers of ten that the Numba parser multiplies by.

A number is read as `mantissa * 10**exponent`. Where both fit a double exactly (mantissa up to 2**53, exponent up to 22)
one multiplication or division rounds correctly. Else the parser multiplies the mantissa by the first 128 bits of the
power of five (Lemire, "Number Parsing at a Gigabyte per Second", 2021), which decides the rounding in all but rare
cases; those, and numbers of more than 19 digits, go to Python's `float`.
"""

import numpy as np
from numpy.typing import NDArray

# Values are stored in float32: with up to 19 digits of mantissa, what lies outside is 0 or too large for it.
LOWEST, HIGHEST = -69, 39

EXACT_POWERS: NDArray[np.float64] = np.array([float(10**power) for power in range(23)])


def powers_of_five() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The upper and lower 64 bits of `5**q`, scaled to 128 bits, for q from `LOWEST` to `HIGHEST`.

    As the paper's proof asks, all are cut off, but reciprocals of powers that fit 64 bits are rounded up.

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
