"""Records if this process is a forked child. OpenMP threads do not survive a fork, and nothing restarts them.

GNU's OpenMP would wait for them forever, and Numba would end the process. So kernels in a forked child run in one
thread. If kernels started threads before the fork, PyTorch, which shares these threads, would also wait. So PyTorch is
set to one thread, as in a worker of its `DataLoader`. `import rankgrad` imports this module, so that no fork is missed.
"""

import os

child = False  # True if this process was forked after rankgrad was imported
started = False  # True if a kernel has run in several threads


def _after() -> None:
    global child
    child = True
    if started:
        import torch

        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after)
