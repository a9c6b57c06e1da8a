"""Knows whether this process is a forked child, in which threads of OpenMP are gone and nobody starts them again.

OpenMP of GNU waits for them forever, and Numba ends the process. So kernels in a forked child run in one thread. Where
kernels have started threads before the fork, PyTorch, which shares them, would wait, too: it is told to use one, as a
worker of its `DataLoader` is. `import rankgrad` imports this module, so that no fork is missed.
"""

import os

child = False  # whether this process was forked after rankgrad was imported
started = False  # whether a kernel has run in several threads


def _after() -> None:
    global child
    child = True
    if started:
        import torch

        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after)
