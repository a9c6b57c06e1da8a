"""Powers of ten with which the Numba parser converts decimal text to the nearest double.

A number is read as `mantissa * 10**exponent`. If a double represents both the mantissa (up to 2**53) and the power of
ten (exponent up to 22) exactly, one multiplication or division rounds correctly. Otherwise, the parser multiplies the
mantissa by the first 128 bits of the power of five (Lemire, "Number Parsing at a Gigabyte per Second", 2021). The
product determines the correct rounding, except in rare cases. In these cases, and for numbers with more than 19 digits,
Python's `float` converts the number.
"""

import numpy as np
from numpy.typing import NDArray

# Range of the exponent q. Values are stored as float32. With a mantissa of up to 19 digits, a number
# with an exponent below this range is 0, and a number with an exponent above it is too large.
LOWEST, HIGHEST = -69, 39

EXACT_POWERS: NDArray[np.float64] = np.array([float(10**power) for power in range(23)])


def powers_of_five() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return, for decimals, upper and lower 64 bits of `5**q`, scaled to 128 bits, for q from `LOWEST` to `HIGHEST`.

    The proof in the paper requires this rounding: if a power has at most 64 bits, its reciprocal is rounded up; all
    other values are rounded down.

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
    reciprocal = 2 ** (value.bit_length() + 127) // value  # between 2**127 and 2**128
    return reciprocal + 1 if power >= -27 else reciprocal
