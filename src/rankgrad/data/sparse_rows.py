"""Operations on feature matrices that may be sparse (SciPy, CSR format). Only small parts of them become dense."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Features `(documents, f)`: an array, possibly mapped from a file, or a SciPy matrix or array in the CSR format.
Features: TypeAlias = Any
_DENSE = 1 << 20  # maximum number of values of a block of sparse rows that becomes dense


def is_sparse(features: Any) -> bool:
    """Return True for a sparse matrix or array of SciPy."""
    return hasattr(features, "tocsr")


def canonical(features: Features) -> Features:
    """Return features in the form in which equal matrices have equal parts: without stored zeros and duplicates.

    A sparse matrix that has another form is copied. An array is returned unchanged.
    """
    if not is_sparse(features):
        return features
    rows = features.tocsr()
    if rows.has_canonical_format and np.count_nonzero(rows.data) == rows.nnz:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def dense(rows: Features) -> NDArray[np.float32]:
    """Return rows of dense or sparse features as an array. Entries that a sparse matrix does not store are 0."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows)


def rows_per_block(features: Features, most: int) -> int:
    """Return the number of rows to process at a time: `most`, or fewer for a sparse matrix, to save memory."""
    return min(most, max(1, _DENSE // max(1, features.shape[1]))) if is_sparse(features) else most


def stack_rows(parts: list[Features]) -> Features:
    """Stack feature matrices, one below the other. The result is sparse if at least one matrix is sparse."""
    if not any(map(is_sparse, parts)):
        return np.concatenate(parts)
    from scipy import sparse

    return sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")


def widen(features: Features, width: int) -> Features:
    """Return the features with `width` columns: columns of zeros are appended."""
    if not is_sparse(features):
        return np.pad(features, ((0, 0), (0, width - features.shape[1])))
    from scipy import sparse

    parts = (features.data, features.indices, features.indptr)
    return sparse.csr_matrix(parts, shape=(features.shape[0], width))


def replace_column(features: Features, column: int, values: NDArray[np.float32]) -> Features:
    """Return a copy of dense or sparse features with other values in one column."""
    if not is_sparse(features):
        features = np.array(features, dtype=np.float32)
        features[:, column] = values
        return features
    from scipy import sparse

    parts = [features[:, :column], sparse.csr_matrix(values[:, None]), features[:, column + 1 :]]
    return sparse.hstack(parts, format="csr")
