"""Run many tasks in a pool of processes. Each process runs many tasks. If a process dies, a new one replaces it."""

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

from rankgrad.errors import Problems
from rankgrad.parallel.clock import now
from rankgrad.parallel.parent_watch import end_with_parent

TRIES = 2  # maximum number of attempts to run a task, if the process dies during each attempt
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Task(NamedTuple):
    """A task for the pool of processes: a function that can be imported, and its arguments."""

    name: str  # unique name
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    affinity: Hashable = None  # tasks with equal values, for example the same data, run in one process if possible


class TaskResult(NamedTuple):
    """Result of a task of the pool: its return value, or its error."""

    task: Task
    value: Any = None
    error: str | None = None  # text of the traceback, or why the process died
    problem: Problems | None = None  # the error itself, if it is about an argument or a file


Runner = Callable[..., Iterator[TaskResult]]  # the function `run_in_this_process`, or the method `run` of a pool


def run_in_this_process(tasks: Iterable[Task], until: float | None = None) -> Iterator[TaskResult]:
    """Run the tasks one after another in this process, without a pool.

    Args:
        tasks: tasks to run.
        until: time of `rankgrad.parallel.clock` after which no task is started; None for no limit.
    """
    for task in tasks:
        if until is not None and now() >= until:
            return
        yield TaskResult(task, *attempt(task.function, task.arguments))


def attempt(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, str | None, Problems | None]:
    """Call the function of a task; return the fields `value`, `error` and `problem` of its result."""
    try:
        return function(*arguments), None, None
    except Exception as error:
        return None, traceback.format_exc(), error if isinstance(error, Problems) else None


class Pool:
    """A pool of `jobs` processes that run tasks; use it in a `with` statement, or call `close`.

    If a process dies, a new process replaces it and runs the same task again. If the new process also dies, the task
    fails. All processes of the pool end when the parent process ends, for any reason.

    Example:
        >>> with Pool(2) as pool:
        ...     sorted(done.value for done in pool.run(Task(str(n), pow, (n, 2)) for n in range(4)))
        [0, 1, 4, 9]
    """

    def __init__(self, jobs: int, threads: int = 1) -> None:
        self.jobs, self.threads = jobs, threads
        self._workers: list[_Worker] = []

    def run(self, tasks: Iterable[Task], until: float | None = None) -> Iterator[TaskResult]:
        """Run the tasks in the processes of the pool; yield each result as soon as it is known.

        Args:
            tasks: tasks to run.
            until: time of `rankgrad.parallel.clock` at which running tasks are ended; the other tasks are not started.
                None for no limit.
        """
        waiting, tries = list(tasks), Counter[str]()
        try:
            yield from self._results(waiting, tries, until)
        finally:
            self._end_busy()  # after Ctrl-C, or at the time limit

    def _results(self, waiting: list[Task], tries: Counter[str], until: float | None) -> Iterator[TaskResult]:
        while waiting or any(worker.task for worker in self._workers):
            self._share_out(waiting)
            busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
            done = wait(list(busy), None if until is None else max(0.0, until - now()))
            if not done:
                return
            for ready in done:
                worker = busy[ready]  # type: ignore[index]
                task = worker.task
                assert task is not None
                worker.task = None
                try:
                    found = worker.connection.recv()
                except (EOFError, OSError):
                    self._workers.remove(worker)
                    how = worker.end()
                    tries[task.name] += 1
                    if tries[task.name] < TRIES:
                        waiting.insert(0, task)
                        continue
                    found = None, f"The process died {TRIES} times, {how}.\n"
                yield TaskResult(task, *found)

    def _share_out(self, waiting: list[Task]) -> None:
        idle = [worker for worker in self._workers if worker.task is None]
        while waiting and (idle or len(self._workers) < self.jobs):
            if not idle:
                idle.append(_Worker(self.threads))
                self._workers.append(idle[-1])
            worker = idle.pop()
            task = next((task for task in waiting if task.affinity == worker.affinity), waiting[0])
            try:
                worker.give(task)
            except OSError:  # the process died between two tasks
                self._workers.remove(worker)
                worker.end()
            else:
                waiting.remove(task)

    def _end_busy(self) -> None:
        """End the processes that are running a task; the other processes remain."""
        for worker in [worker for worker in self._workers if worker.task is not None]:
            worker.process.terminate()
            worker.end()
            self._workers.remove(worker)

    def close(self) -> None:
        """End all processes of the pool, even if they are running a task."""
        for worker in self._workers:
            if worker.task is None:
                worker.connection.close()  # the process ends by itself, and releases its semaphores
            else:
                worker.process.terminate()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Worker:
    """One process of the pool, its current task, and the affinity of its last task."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork does not copy the threads of kernels and of PyTorch
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, _in_main_thread()), daemon=True)
        with _setting_for_children(threads):
            self.process.start()
        theirs.close()  # otherwise the pipe would stay open when the process dies
        self.task: Task | None = None
        self.affinity: Hashable = None

    def give(self, task: Task) -> None:
        self.connection.send((task.function, task.arguments))
        self.task, self.affinity = task, task.affinity

    def end(self) -> str:
        """Wait until this process of the pool has ended, and return a description of its exit status."""
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"


@contextmanager
def _setting_for_children(threads: int) -> Iterator[None]:
    """Set the environment of new processes of the pool: libraries use `threads` threads; processes ignore Ctrl-C."""
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
    """Run the functions that the pool sends to this process, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the group; the parent handles it
    end_with_parent(by_main_thread)
    with suppress(EOFError, OSError):
        while True:
            function, arguments = connection.recv()
            connection.send(attempt(function, arguments))
