"""Records whether this process is a forked child. In a forked child, kernels must run in one thread.

A forked child has no OpenMP threads, and OpenMP does not start new threads in it. GNU's OpenMP would wait forever for
the missing threads, and Numba would end the process. PyTorch uses the same threads as the kernels. If a kernel started
these threads before the fork, PyTorch would also wait forever in the child. In this case, this module sets PyTorch
to one thread in the child. (A PyTorch `DataLoader` does the same in its worker processes.) `import rankgrad` imports
this module, so that every later fork is recorded.
"""

import os

child = False  # True if this process was forked after rankgrad was imported
started = False  # True if a kernel has run in several threads, in this process or, before the fork, in its parent


def _after_fork() -> None:
    """Record that this process is a forked child. Set PyTorch to one thread if kernels had started threads."""
    global child
    child = True
    if started:
        import torch

        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
