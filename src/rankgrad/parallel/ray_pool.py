"""Run tasks on a Ray cluster. The tasks write the result files, so all machines must share the results folder."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from rankgrad.errors import bad_value
from rankgrad.parallel import clock
from rankgrad.parallel.process_pool import TRIES, Task, TaskResult, attempt


class RayPool:
    """A pool that runs tasks on Ray and reserves one processor per thread; use it in a `with` statement.

    Args:
        address: address of a cluster; `"auto"` for the cluster that runs on this machine; None to let `ray.init`
            choose. If this process is already connected to a cluster, the pool uses that cluster.
        threads: number of threads per task.
    """

    def __init__(self, address: str | None, threads: int = 1) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("--ray needs Ray: pip install 'rankgrad[ray]'") from error
        self._ray, self.threads, self._ours = ray, threads, False
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError) as error:
                got = f"{address!r} and the error {error}"
                bad_value("ray", "be the address of a running cluster", got)
            self._ours = True

    @property
    def jobs(self) -> int:
        """Number of tasks that can run at the same time on the Ray cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self.threads)

    def run(self, tasks: Iterable[Task], until: float | None = None) -> Iterator[TaskResult]:
        """Run the tasks on the Ray cluster; yield each result as soon as it is known.

        Args:
            tasks: tasks to run.
            until: time of `rankgrad.parallel.clock` at which all tasks are cancelled; None for no limit.
        """
        ray = self._ray
        remote = ray.remote(num_cpus=self.threads, max_retries=TRIES - 1)(_work)
        running: dict[Any, Task] = {
            remote.remote(task.function, task.arguments, self.threads, clock.reading()): task for task in tasks
        }
        try:
            while running:
                left = None if until is None else max(0.0, until - clock.now())
                found, _ = ray.wait(list(running), num_returns=1, timeout=left)
                if not found:
                    return
                ready = found[0]
                task = running.pop(ready)
                try:
                    found = ray.get(ready)
                except ray.exceptions.RayError as failure:  # the process or machine of the task died in every attempt
                    found = None, f"{type(failure).__name__}: {failure}\n"
                yield TaskResult(task, *found)
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def close(self) -> None:
        """Disconnect from the Ray cluster, if this pool made the connection; the cluster keeps running."""
        if self._ours:
            self._ray.shutdown()

    def __enter__(self) -> "RayPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _work(function: Any, arguments: tuple[Any, ...], threads: int, reading: tuple[float, float]) -> tuple[Any, ...]:
    import torch

    clock.follow(reading)
    torch.set_num_threads(threads)
    return attempt(function, arguments)
