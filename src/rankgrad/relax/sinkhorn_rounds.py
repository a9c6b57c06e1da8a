"""Compute the factors of rows and columns after several rounds of Sinkhorn scaling, for a matrix or its logarithm.

`torch.compile` would copy every round into its graph, and would need minutes for thirty rounds. So compiled code calls
two registered operators: one computes the factors, and the other one computes the gradient with respect to the matrix.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rankgrad.relax.operators import one_node, register

Factors = tuple[Tensor, Tensor]  # of rows and of columns, each (..., n), or (..., rounds, n) for all rounds


def factors(matrix: Tensor, rounds: int) -> Factors:
    """Return Sinkhorn's factors of rows and of columns after the last round. Each round scales columns, then rows."""
    if one_node():
        return _last(_factors_op(matrix, rounds))
    return [*_rounds(matrix, rounds)][-1]


def log_factors(kernel: Tensor, rows: Tensor, columns: Tensor, rounds: int) -> Factors:
    """Return the logarithms of Sinkhorn's factors for the matrix `exp(kernel)`; other rows and columns have factor 1.

    Args:
        kernel: logarithm of the matrix, `(..., n, n)`; entries in other rows or columns must be the lowest number of
            the dtype.
        rows, columns: True for the rows and columns to scale, `(..., n)`.
        rounds: number of rounds, at least 1.
    """
    if one_node():
        return _last(_log_factors_op(kernel, rows, columns, rounds))
    return [*_log_rounds(kernel, rows, columns, rounds)][-1]


def _rounds(matrix: Tensor, rounds: int) -> Iterator[Factors]:
    row = _first(matrix)
    for _ in range(rounds):
        column = _reciprocal(_times(matrix.mT, row))
        row = _reciprocal(_times(matrix, column))
        yield row, column


def _by_matrix(matrix: Tensor, row: Tensor, column: Tensor, by_row: Tensor, by_column: Tensor, rounds: int) -> Tensor:
    """Return the gradient of Sinkhorn scaling with respect to the matrix.

    The arguments are the factors of all rounds, and the gradients with respect to these factors.
    """
    total, later = torch.zeros_like(matrix), torch.zeros_like(row[..., 0, :])
    before = torch.cat([_first(matrix)[..., None, :], row[..., :-1, :]], -2)  # factors of rows before each round
    for t in reversed(range(rounds)):
        by_sums = -(by_row[..., t, :] + later) * row[..., t, :] ** 2  # a factor is 1 / sum
        total += by_sums[..., :, None] * column[..., t, None, :]
        by_sums = -(by_column[..., t, :] + _times(matrix.mT, by_sums)) * column[..., t, :] ** 2
        total += before[..., t, :, None] * by_sums[..., None, :]
        later = _times(matrix, by_sums)
    return total


def _log_rounds(kernel: Tensor, rows: Tensor, columns: Tensor, rounds: int) -> Iterator[Factors]:
    row = kernel.new_zeros(kernel.shape[:-1])
    for _ in range(rounds):
        column = torch.where(columns, -(kernel + row[..., :, None]).logsumexp(-2), 0.0)
        row = torch.where(rows, -(kernel + column[..., None, :]).logsumexp(-1), 0.0)
        yield row, column


def _by_kernel(
    kernel: Tensor,
    rows: Tensor,
    columns: Tensor,
    row: Tensor,
    column: Tensor,
    by_row: Tensor,
    by_column: Tensor,
    rounds: int,
) -> Tensor:
    """Return the gradient of Sinkhorn scaling in log domain with respect to the kernel.

    The arguments are the log factors of all rounds, and the gradients with respect to these log factors.
    """
    total, later = torch.zeros_like(kernel), torch.zeros_like(row[..., 0, :])
    before = torch.cat([torch.zeros_like(row[..., :1, :]), row[..., :-1, :]], -2)
    for t in reversed(range(rounds)):
        # A factor is -logsumexp. The derivative of logsumexp is a softmax: the exponential of the scaled kernel.
        softmax = (kernel + row[..., t, :, None] + column[..., t, None, :]).exp()
        parts = torch.where(rows, by_row[..., t, :] + later, 0.0)[..., :, None] * softmax
        total -= parts
        by_sums = torch.where(columns, by_column[..., t, :] - parts.sum(-2), 0.0)
        softmax = (kernel + before[..., t, :, None] + column[..., t, None, :]).exp()
        parts = by_sums[..., None, :] * softmax
        total -= parts
        later = -parts.sum(-1)
    return total


def _first(matrix: Tensor) -> Tensor:
    return (matrix.sum(-1) > 0).to(matrix.dtype)  # (..., n)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    # Not `@`: a backward pass inside of autocast would compute its derivatives in half precision.
    return (matrix * vector[..., None, :]).sum(-1)


def _reciprocal(sums: Tensor) -> Tensor:
    return torch.where(sums > 0, 1.0 / torch.where(sums > 0, sums, 1.0), 0.0)


def _all_rounds(each: Iterator[Factors]) -> Factors:
    row, column = (torch.stack(kind, -2) for kind in zip(*each, strict=True))
    return row, column  # (..., rounds, n)


def _empty_factors(matrix: Tensor, *others: Any) -> Factors:
    shape = (*matrix.shape[:-2], others[-1], matrix.shape[-1])
    return matrix.new_empty(shape), matrix.new_empty(shape)


def _empty_like(matrix: Tensor, *_: Any) -> Tensor:
    return matrix.new_empty(matrix.shape)


def _last(all_rounds: Factors) -> Factors:
    row, column = all_rounds
    return row[..., -1, :], column[..., -1, :]


_FACTORS = "Tensor row, Tensor column, Tensor by_row, Tensor by_column, int rounds"
_factors_op = register(
    "sinkhorn(Tensor matrix, int rounds) -> (Tensor, Tensor)",
    lambda *inputs: _all_rounds(_rounds(*inputs)),
    _empty_factors,
    backward=register(f"sinkhorn_backward(Tensor matrix, {_FACTORS}) -> Tensor", _by_matrix, _empty_like),
)
_log_factors_op = register(
    "log_sinkhorn(Tensor kernel, Tensor rows, Tensor columns, int rounds) -> (Tensor, Tensor)",
    lambda *inputs: _all_rounds(_log_rounds(*inputs)),
    _empty_factors,
    backward=register(
        f"log_sinkhorn_backward(Tensor kernel, Tensor rows, Tensor columns, {_FACTORS}) -> Tensor",
        _by_kernel,
        _empty_like,
    ),
)
