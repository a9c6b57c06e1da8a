"""Share what all checkpoints of runs need: file name, fingerprint of the data, and the checks before a resume."""

import zlib
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rankgrad.data import Dataset
from rankgrad.data.sparse_rows import dense
from rankgrad.errors import bad_value, first_line

LAST = "last.safetensors"


def check_settings(now: Mapping[str, Any], then: Mapping[str, Any], free: Container[str], folder: Path) -> None:
    """Raise an error if a setting of the stopped run has changed.

    Args:
        now: settings of the run that is resumed.
        then: settings of the stopped run.
        free: names of settings that may change, because they do not affect what is learned.
        folder: folder of the run.
    """
    for name in {**now, **then}:  # a setting at its default may be in one of them only
        if name not in free and then.get(name) != now.get(name):
            bad_value(name, f"be {then.get(name)!r}, to resume {folder}", repr(now.get(name)))


def data_fingerprint(data: Dataset) -> dict[str, Any]:
    """Return the sizes and a checksum of the data set of a run.

    These values show if a run is resumed with a different data set. The checksum includes all offsets and labels, but
    only a sample of the features. The result also contains a checksum of training columns, and a hash of texts, if the
    data set has them.
    """
    documents = len(data.labels)
    rows = np.unique(np.linspace(0, max(documents - 1, 0), 1000).astype(np.int64))[: documents or None]
    sample = dense(data.matrix[rows]) if documents else np.zeros(0)
    content = zlib.crc32(np.ascontiguousarray(data.offsets).tobytes())
    for array in (data.labels, sample):
        content = zlib.crc32(np.ascontiguousarray(array).tobytes(), content)
    sizes = {"lists": len(data), "documents": documents, "features": data.matrix.shape[1], "content": content}
    columns = 0
    for name, values in sorted((data.columns or {}).items()):
        columns = zlib.crc32(np.ascontiguousarray(values).tobytes(), zlib.crc32(name.encode(), columns))
    sizes |= {"columns": columns} if data.columns else {}
    return sizes if data.texts is None else {**sizes, "texts": data.texts.content_hash}


def refuse_checkpoint(path: Path, error: Exception) -> NoReturn:
    """Raise an error about a file that is not the checkpoint of a run.

    Args:
        path: path of the file.
        error: error that the reading of the file raised.
    """
    must = "must be a checkpoint of this run (otherwise, train again in a new folder)"
    raise ValueError(f"{path} {must}; got: {first_line(error)}") from error
