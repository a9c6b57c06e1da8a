"""The losses, fused: value and gradient in one go, in memory linear in the number of documents.

`op.py` registers one PyTorch operator for all of them; `cpu/` (Numba) and `cuda/` (Triton) hold a file for each family,
named like the family's file in `rankgrad.losses`. Everything here imports PyTorch and its compiler, and nothing else of
rankgrad but `backend`, which says what is wanted; the plain losses are the truth that the tests compare with.
"""
