"""Minimum and maximum of an array for CPU kernels. LLVM vectorises them, unlike Numba's `min` and `max`."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rankgrad.kernels.cpu import helper

_DOUBLE = ir.DoubleType()


def _extreme(name: str) -> Any:
    """Return a function for kernels that calls the LLVM function `name`, the minimum or maximum of two numbers."""

    @intrinsic
    def extreme(context: Any, one: Any, other: Any) -> Any:
        del context, one, other

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLE])
            return builder.call(builder.module.declare_intrinsic(name, [_DOUBLE], kind), arguments)

        return types.float64(types.float64, types.float64), generate

    return extreme


_lower, _higher = _extreme("llvm.minimum"), _extreme("llvm.maximum")


@helper
def extremes(values):
    """Return the lowest and the highest number of an array, in a CPU kernel. If the array contains NaN, both are NaN.

    For an empty array, the results are inf and -inf.
    """
    low, high = np.inf, -np.inf
    for i in range(len(values)):
        low, high = _lower(low, values[i]), _higher(high, values[i])
    return low, high
