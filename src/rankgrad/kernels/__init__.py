"""Fused losses: compute value and gradient together, in memory linear in the number of documents.

`op.py` registers one PyTorch operator for all of them. `cpu/` (Numba) and `cuda/` (Triton) have one file per family,
named like the family's file in `rankgrad.losses`. The package imports PyTorch and its compiler. Of rankgrad it imports
only `backend`, which holds the user's choice. The tests compare the kernels with the plain losses.
"""
