"""Processes that work through many tasks: they are spawned once, live for many tasks, and may die without harm."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from rankgrad.experiments.runs.parent_watch import end_with_parent

TRIES = 2  # of a task whose process dies
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Task(NamedTuple):
    """A function that can be imported, and what it is called with."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    near: Hashable = None  # tasks that share this, such as their data, had better run in one process


class TaskResult(NamedTuple):
    """What became of a task: a value, or the text of an error."""

    task: Task
    value: Any = None
    error: str | None = None


Runner = Callable[[Iterable[Task]], Iterator[TaskResult]]  # `here`, or the `run` of a pool


def here(tasks: Iterable[Task]) -> Iterator[TaskResult]:
    """The tasks one after another in this process."""
    for task in tasks:
        yield TaskResult(task, *attempt(task.function, task.arguments))


def attempt(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, str | None]:
    """The function's value, or the text of its error."""
    try:
        return function(*arguments), None
    except Exception:
        return None, traceback.format_exc()


class Pool:
    """So many processes, which share out tasks; to be used in a `with`, or closed.

    A process that dies is replaced. Its task is tried again, and is an error when that fails as well. Processes end by
    themselves when the one that made them is gone, however it went.

    Example:
        >>> with Pool(2) as pool:
        ...     sorted(done.value for done in pool.run(Task(str(n), pow, (n, 2)) for n in range(4)))
        [0, 1, 4, 9]
    """

    def __init__(self, jobs: int, threads: int = 1) -> None:
        self.jobs, self.threads = jobs, threads
        self._workers: list[_Worker] = []

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """What becomes of the tasks, as it becomes known."""
        waiting, tries = list(tasks), Counter[str]()
        while waiting or any(worker.task for worker in self._workers):
            self._share_out(waiting)
            busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
            for ready in wait(list(busy)):
                worker = busy[ready]  # type: ignore[index]
                task = worker.task
                assert task is not None
                worker.task = None
                try:
                    value, error = worker.connection.recv()
                except (EOFError, OSError):
                    self._workers.remove(worker)
                    how = worker.end()
                    tries[task.name] += 1
                    if tries[task.name] < TRIES:
                        waiting.insert(0, task)
                        continue
                    value, error = None, f"The process died {TRIES} times, {how}.\n"
                yield TaskResult(task, value, error)

    def _share_out(self, waiting: list[Task]) -> None:
        idle = [worker for worker in self._workers if worker.task is None]
        while waiting and (idle or len(self._workers) < self.jobs):
            if not idle:
                idle.append(_Worker(self.threads))
                self._workers.append(idle[-1])
            worker = idle.pop()
            task = next((task for task in waiting if task.near == worker.near), waiting[0])
            try:
                worker.give(task)
            except OSError:  # it died between two tasks
                self._workers.remove(worker)
                worker.end()
            else:
                waiting.remove(task)

    def close(self) -> None:
        """End all processes, whatever they do."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Worker:
    """One process, and what it was told last."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # threads of kernels and of PyTorch do not survive a fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, _in_main_thread()), daemon=True)
        with _setting_for_children(threads):
            self.process.start()
        theirs.close()  # so that its death is the end of the pipe
        self.task: Task | None = None
        self.near: Hashable = None

    def give(self, task: Task) -> None:
        self.connection.send((task.function, task.arguments))
        self.task, self.near = task, task.near

    def end(self) -> str:
        """Wait until it is gone, and say how it went."""
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"


@contextmanager
def _setting_for_children(threads: int) -> Iterator[None]:
    """What a new process inherits: numbers of threads, which libraries read when loaded, and deafness to Ctrl-C."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if _in_main_thread() else None
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _work(connection: Connection, by_main_thread: bool) -> None:
    """Do what is sent, until nothing more can come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    end_with_parent(by_main_thread)
    with suppress(EOFError, OSError):
        while True:
            function, arguments = connection.recv()
            connection.send(attempt(function, arguments))
