"""Kernels of the fused losses. A kernel computes the loss value of each list together with the gradient of this value.

The memory of a kernel is linear in the number of documents. `op.py` registers one PyTorch operator for all fused
losses. `cpu/` (Numba) and `cuda/` (Triton) have one file per family of losses. Each file has the same name as the file
of the family in `rankgrad.losses`. This package imports PyTorch, and Numba or Triton. From the rest of rankgrad, it
imports only `backend`, which stores the user's choice of backend. The tests compare the kernels with the plain losses.
"""
