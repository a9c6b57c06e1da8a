"""A trained text ranker. It scores the pairs of a text data set. Its files have the format of Hugging Face."""

import hashlib
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.atomic_files import hash_of
from rankgrad.data import Dataset
from rankgrad.errors import bad_value, located
from rankgrad.models.calibration import write_calibration
from rankgrad.models.folder import (
    CONFIG,
    check_no_run,
    feature_names_of,
    read_config,
    read_metrics,
    write_config,
    write_metrics,
)
from rankgrad.models.protocol import TrainedModel
from rankgrad.settings.schema import check_number
from rankgrad.settings.text import TextSettings
from rankgrad.text.collection import collection_of
from rankgrad.text.encoder_files import ENCODER, replace_encoder, settle_encoder
from rankgrad.text.network import Pairs, TextNetwork, Told
from rankgrad.text.network_from_settings import build_network

KIND = "text"  # `kind` in the `config.json` of a text model
_OF_NETWORK = ("model", "temperature", "max_length", "passages", "max_document", "chunk", "precision")


@dataclass
class TextModel(TrainedModel):
    """A text network with its settings and with results of its training."""

    network: TextNetwork
    settings: dict[str, Any] = field(default_factory=dict)  # settings of the training run
    metrics: dict[str, Any] = field(default_factory=dict)  # results of the training: epoch, validation, loss
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per epoch of the training; empty after `load`
    run: str = ""  # identifier of the run
    features: int = 3  # number of features of a text data set: query, document and first-stage scores

    def score(self, features: Any, offsets: Any = None) -> NDArray[np.float32]:
        """Compute one score per document with the text model, `(documents,)`.

        Args:
            features: features of a text data set: column 0 is the index of the query and column 1 is the index of the
                document, in the collection that the network uses.
            offsets: not used, because the score of a pair does not depend on other pairs.
        """
        if self.network.collection is None:
            must = "be scored with `score_lists(data)`, because the model also needs the texts of the data set"
            bad_value("features", must, "a model without a collection")
        return self._score(np.asarray(features)[:, :2].astype(np.int64))

    def score_lists(self, data: Dataset, told: Told | None = None) -> NDArray[np.float32]:
        """Compute one score of the text model per document of a text data set, `(documents,)`.

        Args:
            data: text data set, for example from `rankgrad.text.candidate_lists`.
            told: function that is called after each block, with the numbers of finished blocks and of all blocks.
        """
        self.network.use(collection_of(data))
        return self._score(pairs_of(data), told)

    def _score(self, pairs: Pairs, told: Told | None = None) -> NDArray[np.float32]:
        if not len(pairs):
            return np.zeros(0, dtype=np.float32)
        was = self.network.training
        self.network.eval()
        with torch.inference_mode(), self.precision():
            scores = self.network.score_pairs(pairs, told)
        self.network.train(was)
        return scores

    def precision(self) -> AbstractContextManager[Any]:
        """Return a context manager, inside which the text network uses the precision of the settings."""
        wanted = self.settings.get("precision", "fp32") == "bf16"
        return torch.autocast(self.network.device.type, torch.bfloat16, enabled=wanted)

    def to(self, device: str | torch.device) -> "TextModel":
        """Move the text model to a device, and return the model.

        Args:
            device: device of PyTorch.
        """
        self.network.to(device)
        return self

    @property
    def size(self) -> int:
        """Number of parameters of the text model."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def weights_hash(self) -> str:
        """Return a hash of the text model's weights, which identifies the model from which a run starts."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            found.update(name.encode())
            found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return hash_of(found.digest())[:16]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `config.json`, `metrics.json` and the folder `encoder`. `transformers` can load the folder `encoder`.

        Args:
            folder: folder of the model; it is created if it does not exist.
        """
        check_no_run(folder)
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        replace_encoder(path, self.network.write)
        write_metrics(path, self.metrics)
        about = {"settings": self.settings, **({"run": self.run} if self.run else {}), "features": self.features}
        write_config(path, KIND, about, self.feature_names)
        write_calibration(path, self.calibration)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device = "cpu") -> "TextModel":
        """Read a text model from its folder. No content of the folder is executed or unpickled.

        Args:
            folder: folder of the model, written by `save` or by a training run.
            device: device of the weights.
        """
        path = Path(folder)
        config = read_config(path)
        encoder = settle_encoder(path)
        if not encoder.is_dir():
            bad_value(str(folder), f"contain the folder {ENCODER}", "no such folder: no epoch of the run is complete")
        settings, features = config.get("settings", {}), config.get("features", 3)
        try:
            used = {name: settings[name] for name in _OF_NETWORK if name in settings}
            TextSettings.of({**used, "encoder": str(encoder)}).check(files=False)
            check_number("features", features, whole=True, least=2)
        except (ValueError, TypeError) as error:
            raise located(error, str(path / CONFIG)) from error
        network = build_network(TextSettings.of({**settings, "encoder": str(encoder)}))
        if odd := [*network.new, *network.unused]:
            must = "contain the weights of the trained model, no fewer and no more"
            bad_value(str(encoder), must, f"{'no' if network.new else 'also'} {odd[0]}")
        model = cls(network.to(device).eval(), settings, read_metrics(path), run=config.get("run", ""))
        model.features = features
        model.feature_names = feature_names_of(path, model.features)
        return model


def pairs_of(data: Dataset, rows: Any = slice(None)) -> Pairs:
    """Return the indices of query and document for some rows of a text data set, `(n, 2)`.

    Args:
        data: text data set.
        rows: indices of the rows, or a slice.
    """
    return np.asarray(data.features[rows, :2]).astype(np.int64)
