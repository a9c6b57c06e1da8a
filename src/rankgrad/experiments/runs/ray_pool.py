"""The same tasks on a Ray cluster. Results go through the same files, so all machines must share that folder."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from rankgrad.experiments.runs.process_pool import TRIES, Task, TaskResult, attempt


class RayPool:
    """Tasks as Ray tasks, with a processor for each thread; to be used in a `with`.

    Args:
        address: of a cluster; `"auto"` is the one that runs here. None: Ray that is connected already.
        threads: a task.
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
                raise ValueError(f"ray must be the address of a cluster that runs; got {address!r}: {error}") from error
            self._ours = True

    @property
    def jobs(self) -> int:
        """How many tasks fit at once."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self.threads)

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """What becomes of the tasks, as it becomes known."""
        ray = self._ray
        remote = ray.remote(num_cpus=self.threads, max_retries=TRIES - 1)(_work)
        going: dict[Any, Task] = {remote.remote(task.function, task.arguments, self.threads): task for task in tasks}
        try:
            while going:
                (ready, *_), _ = ray.wait(list(going), num_returns=1)
                task = going.pop(ready)
                try:
                    value, error = ray.get(ready)
                except ray.exceptions.RayError as failure:  # its process or machine died, and again when tried again
                    value, error = None, f"{type(failure).__name__}: {failure}\n"
                yield TaskResult(task, value, error)
        finally:
            for left in going:
                ray.cancel(left, force=True)

    def close(self) -> None:
        """Let go of the cluster, which goes on."""
        if self._ours:
            self._ray.shutdown()

    def __enter__(self) -> "RayPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _work(function: Any, arguments: tuple[Any, ...], threads: int) -> tuple[Any, str | None]:
    import torch

    torch.set_num_threads(threads)
    return attempt(function, arguments)
