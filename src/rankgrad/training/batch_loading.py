"""Batches of tensors: gathered on the device where the data fits there, else read ahead from the memory map."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.data import Dataset, Preprocessing
from rankgrad.training.batch_schedule import StepLists

_AHEAD = 4  # batches read before they are asked for
_SHARE = 0.5  # of the free memory of the device that the data may take


class Batch(NamedTuple):
    """Some lists on the device."""

    features: Tensor  # (documents, f)
    labels: Tensor  # (documents,)
    offsets: Tensor  # (lists + 1,)
    weights: Tensor | None  # (documents,)
    width: int  # documents of the longest list


class DeviceData:
    """The whole data set on the device, preprocessed once; a batch is a gather there."""

    def __init__(self, data: Dataset, steps: Preprocessing, weights: Tensor | None, device: torch.device) -> None:
        self.features = torch.from_numpy(steps.transform(data.features, data.offsets)).to(device)
        self.labels = torch.from_numpy(np.array(data.labels, dtype=np.float32)).to(device)
        self.weights = None if weights is None else weights.to(device)
        self.device = device

    def batches(self, plan: Sequence[StepLists]) -> Iterator[Batch]:
        """The batches of these steps, in order."""
        if not plan:
            return
        # One transfer for many batches: each costs a launch, however small it is.
        for start in range(0, len(plan), 1024):
            part = plan[start : start + 1024]
            rows = _concatenated([step.rows for step in part], self.device)
            offsets = _concatenated([step.offsets for step in part], self.device)
            row = place = 0
            for step in part:
                chosen = rows[row : row + len(step.rows)]
                yield self.gather(chosen, offsets[place : place + len(step.offsets)], step.width)
                row, place = row + len(step.rows), place + len(step.offsets)

    def gather(self, rows: Tensor, offsets: Tensor, width: int) -> Batch:
        """A batch of these rows."""
        weights = None if self.weights is None else self.weights.index_select(0, rows)
        return Batch(self.features.index_select(0, rows), self.labels.index_select(0, rows), offsets, weights, width)


class StreamedData:
    """Batches read from the data set's arrays (a memory map, usually) in a thread, some ahead of their use."""

    def __init__(self, data: Dataset, steps: Preprocessing, weights: Tensor | None, device: torch.device) -> None:
        self.data, self.steps, self.weights, self.device = data, steps, weights, device

    def batches(self, plan: Sequence[StepLists]) -> Iterator[Batch]:
        """The batches of these steps, in order. What goes wrong in the thread is raised here."""
        ready: queue.Queue[Batch | BaseException | None] = queue.Queue(_AHEAD)
        stopped = threading.Event()

        def put(item: Batch | BaseException | None) -> None:
            while not stopped.is_set():
                try:
                    return ready.put(item, timeout=0.1)
                except queue.Full:
                    continue

        def read() -> None:
            try:
                for step in plan:
                    if stopped.is_set():
                        return
                    put(self._read(step))
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=read, name="rankgrad-feed", daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield self._move(item)
        finally:
            stopped.set()
            thread.join()

    def _read(self, step: StepLists) -> Batch:
        features = self._features(step)
        labels = np.array(self.data.labels[step.rows], dtype=np.float32)
        weights = None if self.weights is None else self.weights[torch.from_numpy(step.rows)]
        arrays = (torch.from_numpy(array) for array in (features, labels, step.offsets))
        if self.device.type == "cuda":
            arrays = (tensor.pin_memory() for tensor in arrays)
        rows, grades, offsets = arrays
        return Batch(rows, grades, offsets, weights, step.width)

    def _features(self, step: StepLists) -> NDArray[np.float32]:
        lengths = self.data.lengths[step.lists]
        if lengths.sum() == len(step.rows):
            return self.steps.transform(np.asarray(self.data.features[step.rows]), step.offsets)
        # Lists are cut after preprocessing, which may look at a whole list.
        whole = self.data.take(step.lists)
        starts = np.repeat(self.data.offsets[step.lists] - whole.offsets[:-1], np.diff(step.offsets))
        return self.steps.transform(whole.features, whole.offsets)[step.rows - starts]

    def _move(self, batch: Batch) -> Batch:
        rows, grades, offsets = (tensor.to(self.device, non_blocking=True) for tensor in batch[:3])
        weights = None if batch.weights is None else batch.weights.to(self.device)
        return Batch(rows, grades, offsets, weights, batch.width)


def feed(
    data: Dataset, steps: Preprocessing, device: torch.device, *, where: str, weights: Tensor | None
) -> DeviceData | StreamedData:
    """The data on the device where it fits (or `where` says so), else as a stream."""
    needed = data.features.size * 4
    fits = where == "device" or (where == "auto" and needed < _SHARE * free_memory(device))
    return (DeviceData if fits else StreamedData)(data, steps, weights, device)


def free_memory(device: torch.device) -> float:
    """Bytes that are free on the device."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        return float(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return float("inf")  # not Linux: let the data in, as most libraries do


def _concatenated(arrays: Sequence[np.ndarray], device: torch.device) -> Tensor:
    values = torch.from_numpy(np.concatenate(arrays))
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values
