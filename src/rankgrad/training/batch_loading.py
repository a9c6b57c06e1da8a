"""Load the training batches of neural rankers as tensors.

A data set is stored in the memory of the device if it is small enough. Otherwise, a thread reads the batches in
advance.
"""

import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.data import Dataset, Preprocessing
from rankgrad.data.dataset import ChosenRows
from rankgrad.data.sparse_rows import is_sparse
from rankgrad.run.objective import Batch, column_tensors
from rankgrad.training.batch_schedule import StepLists

_AHEAD = 4  # number of batches that are read in advance
_SHARE = 0.5  # largest share of the free device memory that the data may use
_SPARSE = 1 << 26  # largest number of bytes of sparse data in dense form that is placed on the device


class DeviceData:
    """The whole data set, in the memory of the device. The data is preprocessed once. A batch is some of its rows."""

    def __init__(
        self, data: Dataset, preprocessing: Preprocessing, weights: Tensor | None, device: torch.device
    ) -> None:
        self.features = torch.from_numpy(preprocessing.transform(data.matrix, data.offsets)).to(device)
        self.labels = torch.from_numpy(np.array(data.labels, dtype=np.float32)).to(device)
        self.weights = None if weights is None else weights.to(device)
        self.columns = column_tensors(data, device=device)
        self.device = device

    def batches(self, steps: Sequence[StepLists]) -> Iterator[Batch]:
        """Yield the batches of these steps from the data on the device, in order."""
        if not steps:
            return
        # Use one transfer for many batches, because even a small transfer costs a launch.
        for start in range(0, len(steps), 1024):
            part = steps[start : start + 1024]
            rows = _concatenated([step.rows for step in part], self.device)
            offsets = _concatenated([step.offsets for step in part], self.device)
            row = place = 0
            for step in part:
                chosen = rows[row : row + len(step.rows)]
                yield self.gather(chosen, offsets[place : place + len(step.offsets)], step.width)
                row, place = row + len(step.rows), place + len(step.offsets)

    def gather(self, rows: Tensor, offsets: Tensor, width: int) -> Batch:
        """Return the batch that consists of these rows of the data on the device."""
        weights = None if self.weights is None else self.weights.index_select(0, rows)
        columns = {name: values.index_select(0, rows) for name, values in self.columns.items()}
        features, labels = self.features.index_select(0, rows), self.labels.index_select(0, rows)
        return Batch(features, labels, offsets, weights, width, columns)


class StreamedData:
    """Batches that a thread reads in advance from the arrays of the data set. The arrays are usually memory maps."""

    def __init__(
        self, data: Dataset, preprocessing: Preprocessing, weights: Tensor | None, device: torch.device
    ) -> None:
        self.data, self.preprocessing, self.weights, self.device = data, preprocessing, weights, device

    def batches(self, steps: Sequence[StepLists]) -> Iterator[Batch]:
        """Yield the batches of these steps in order. If the thread that reads them fails, raise its error here."""
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
                for step in steps:
                    if stopped.is_set():
                        return
                    put(self._read(step))
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=read, name="rankgrad-batches", daemon=True)
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
        label_array = np.array(self.data.labels[step.rows], dtype=np.float32)
        weights = None if self.weights is None else self.weights[torch.from_numpy(step.rows)]
        arrays = (torch.from_numpy(array) for array in (features, label_array, step.offsets))
        if self.device.type == "cuda":
            arrays = (tensor.pin_memory() for tensor in arrays)
        rows, labels, offsets = arrays
        return Batch(rows, labels, offsets, weights, step.width, column_tensors(self.data, step.rows))

    def _features(self, step: StepLists) -> NDArray[np.float32]:
        lengths = self.data.lengths[step.lists]
        if lengths.sum() == len(step.rows):
            return self.preprocessing.transform(ChosenRows(self.data.matrix, step.rows), step.offsets)
        # Lists are truncated after preprocessing, which may need the whole list.
        whole = self.data.take(step.lists)
        starts = np.repeat(self.data.offsets[step.lists] - whole.offsets[:-1], np.diff(step.offsets))
        return self.preprocessing.transform(whole.features, whole.offsets)[step.rows - starts]

    def _move(self, batch: Batch) -> Batch:
        parts = batch.features, batch.labels, batch.offsets
        rows, labels, offsets = (tensor.to(self.device, non_blocking=True) for tensor in parts)
        weights = None if batch.weights is None else batch.weights.to(self.device)
        columns = {name: values.to(self.device) for name, values in batch.columns.items()}
        return Batch(rows, labels, offsets, weights, batch.width, columns)


def batch_source(
    data: Dataset, preprocessing: Preprocessing, device: torch.device, *, data_on: str, weights: Tensor | None
) -> DeviceData | StreamedData:
    """Return the source of the batches for the setting `data_on`: data on the device, or a stream.

    With "auto", the data is stored on the device if it needs less than half of the free memory. Sparse data is stored
    on the device only if its dense form is small.
    """
    needed = 4 * np.prod(data.matrix.shape, dtype=float)
    # Rows of a sparse matrix become dense only in batches, unless all of them are small.
    free = _SPARSE if is_sparse(data.matrix) else _SHARE * free_device_memory(device)
    fits = data_on == "device" or (data_on == "auto" and needed < free)
    return (DeviceData if fits else StreamedData)(data, preprocessing, weights, device)


def free_device_memory(device: torch.device) -> float:
    """Return the number of free bytes in the memory of the device. Return infinity if the number is not available."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        return float(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return float("inf")  # The system is not Linux. Assume that the data fits, as most libraries do.


def _concatenated(arrays: Sequence[np.ndarray], device: torch.device) -> Tensor:
    values = torch.from_numpy(np.concatenate(arrays))
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values
