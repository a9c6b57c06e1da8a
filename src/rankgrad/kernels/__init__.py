"""Fused losses. A kernel computes value and gradient together, with memory linear in the number of documents.

`op.py` registers one PyTorch operator for all of them. `cpu/` (Numba) and `cuda/` (Triton) have one file per family,
named like the family's file in `rankgrad.losses`. The package imports PyTorch, and Numba or Triton. The only module of
rankgrad outside this package that it imports is `backend`, which contains the user's choice of backend. The tests
compare the kernels with the plain losses.
"""
