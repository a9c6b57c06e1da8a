"""End a worker process when its parent process has ended, for any reason."""

import multiprocessing
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1  # constant of <sys/prctl.h>


def end_with_parent(by_main_thread: bool = True) -> None:
    """End this process, which `multiprocessing` started, as soon as its parent has ended.

    A killed parent cannot send a message, but the operating system closes the pipe of the parent. A thread of this
    process waits until the pipe is closed. The thread cannot run during a long call into C that holds the GIL.
    Therefore, on Linux the kernel also ends this process.

    Args:
        by_main_thread: True if the main thread of the parent started this process. If False, the kernel does not end
            this process: it would do so when the starting thread ends, and only the main thread lives as long as the
            parent process.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_for, args=(parent,), daemon=True).start()
    if sys.platform == "linux" and by_main_thread:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # the parent ended before the call of prctl
            os._exit(1)


def _wait_for(parent: "multiprocessing.process.BaseProcess") -> None:
    parent.join()
    os._exit(1)
