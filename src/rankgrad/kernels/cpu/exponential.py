"""Exponential function for CPU kernels, vectorised by LLVM. Numba's exp calls the math library once per number."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rankgrad.kernels.cpu import helper

# Taylor series of 2^x: 13 terms give all digits of float64 for |x| <= 1/2.
_T = [math.log(2.0) ** power / math.factorial(power) for power in range(13)]
_T1, _T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12 = _T[1:]
_LOG2_E = 1.0 / math.log(2.0)


@intrinsic
def _float_of_bits(context: Any, bits: Any) -> Any:
    """Reinterpret the bits of an int64 as a float64, for the exponential function of CPU kernels."""
    del context, bits

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@helper
def exp(x):
    """Return exp(x) in float64, in a CPU kernel. The result has 14 correct digits if |x| <= 700.

    For x < -700, return exp(-700).
    """
    y = max(x, -700.0) * _LOG2_E
    whole = math.floor(y + 0.5)
    f = y - whole
    high = _T6 + f * (_T7 + f * (_T8 + f * (_T9 + f * (_T10 + f * (_T11 + f * _T12)))))
    part = 1.0 + f * (_T1 + f * (_T2 + f * (_T3 + f * (_T4 + f * (_T5 + f * high)))))
    return part * _float_of_bits((np.int64(whole) + 1023) << 52)
