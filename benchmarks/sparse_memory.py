"""Measure the peak memory of training on a sparse matrix with the shape of Yahoo's sets: 700 columns, 519 of them used.

Each row of the table is the training of one ranker in a process of its own. The memory of the process before the
training, with all packages and the matrix, is subtracted. The last column is the dense matrix alone.

    python benchmarks/sparse_memory.py [--documents 100000] [--json FILE]
"""

import argparse
import json
import subprocess
import sys

import numpy as np
from peak_memory import forget_peak, memory, peak
from scipy import sparse

COLUMNS, USED = 700, 519
RANKERS = {
    "lightgbm": {"framework": "lightgbm", "trees": 20, "threads": 1, "holdout": 0.0},
    "xgboost": {"framework": "xgboost", "trees": 20, "threads": 1, "holdout": 0.0},
    "mlp": {"model": "mlp:widths=64", "epochs": 2, "holdout": 0.0, "device": "cpu"},
}


def yahoo_shaped(documents: int, share: float, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Return a sparse matrix of which `share` of the used columns is not 0, labels, and query ids (lists of 20)."""
    rng = np.random.default_rng(seed)
    used = np.sort(rng.choice(COLUMNS, USED, replace=False))
    matrix = sparse.random(documents, USED, share, format="csr", dtype=np.float32, random_state=seed)
    matrix = sparse.csr_matrix((matrix.data, used[matrix.indices], matrix.indptr), shape=(documents, COLUMNS))
    signal = np.asarray(matrix[:, used[:20]].sum(axis=1)).ravel()
    labels = np.digitize(signal + 0.2 * rng.normal(size=documents), [0.2, 0.5, 1.0])
    return matrix, labels, np.arange(documents) // 20


def train(name: str, documents: int, share: float, dense: bool) -> None:
    """Train one ranker, and print the added peak memory in megabytes."""
    import rankgrad as rg

    options = dict(RANKERS[name])
    make = rg.trees.TreeRanker if "framework" in options else rg.Ranker
    small = yahoo_shaped(2_000, 0.5)
    make(**options).fit(small[0], small[1], qid=small[2])  # compiles kernels and loads packages
    X, y, qid = yahoo_shaped(documents, share)
    given = X.toarray() if dense else X
    forget_peak("cpu")
    before = memory("cpu")
    make(**options).fit(given, y, qid=qid)
    print(json.dumps({"megabytes": (peak("cpu") - before) / 1e6, "nnz": int(X.nnz)}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        train(given.one[0], given.documents, float(given.one[1]), given.one[2] == "dense")
        return
    rows = []
    print(f"{given.documents:,} documents x {COLUMNS} columns; added peak memory in MB")
    print(f"dense matrix alone: {4e-6 * given.documents * COLUMNS:,.0f} MB")
    for name in RANKERS:
        for share, form in ((0.02, "sparse"), (0.04, "sparse"), (0.02, "dense")):
            command = [sys.executable, __file__, "--documents", str(given.documents), "--one", name, str(share), form]
            found = json.loads(
                subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
            )
            rows.append({"ranker": name, "share": share, "form": form, **found})
            print(
                f"{name:10} {form:7} {share:.0%} not 0  {found['nnz']:>12,} values  {found['megabytes']:>8,.0f} MB",
                flush=True,
            )
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"documents": given.documents, "columns": COLUMNS, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
