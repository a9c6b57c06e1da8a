"""Kernels of the fused losses. A kernel computes the values of lists, and the gradients of these values, together.

The memory of a kernel is linear in the number of documents. `op.py` registers one PyTorch operator for all fused
losses. `cpu/` (Numba) and `cuda/` (Triton) have one file per family, named like the family's file in `rankgrad.losses`.
This package imports PyTorch, and Numba or Triton. From the rest of rankgrad, it imports only `backend`, which contains
the user's choice of backend. The tests compare the kernels with the plain losses.
"""
