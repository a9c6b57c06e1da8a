"""A process that ends with the one that made it, however that one went."""

import multiprocessing
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def end_with_parent(by_main_thread: bool = True) -> None:
    """End this process, one of `multiprocessing`, as soon as its parent is gone.

    A parent that is killed cannot say so, but the end of its pipe does, to a thread here that waits for it. That thread
    has to wait for a call that holds Python's lock, such as a long one into C; on Linux the kernel does not.

    Args:
        by_main_thread: whether the parent's main thread made this process. For Linux, the parent is the thread that
            did, and any other may end before its process does.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_for, args=(parent,), daemon=True).start()
    if sys.platform == "linux" and by_main_thread:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it went before the kernel was asked
            os._exit(1)


def _wait_for(parent: "multiprocessing.process.BaseProcess") -> None:
    parent.join()
    os._exit(1)
