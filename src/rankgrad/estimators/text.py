"""Bi-encoder and cross-encoder with `fit`, `predict`, `rerank`, `save` and `load`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rankgrad.data import Dataset
from rankgrad.errors import bad_type, bad_value
from rankgrad.metrics.trec import Run
from rankgrad.models.registry import kind_named
from rankgrad.run import Callback
from rankgrad.settings.text import TextSettings
from rankgrad.text.bi_encoder import BiEncoder
from rankgrad.text.candidates import candidate_lists, to_run
from rankgrad.text.collection import Collection
from rankgrad.text.model import TextModel
from rankgrad.text.network_from_settings import build_network
from rankgrad.training.devices import chosen_device

if TYPE_CHECKING:
    from typing_extensions import Self


class TextRanker:
    """Base class of the text rankers.

    Args:
        encoder: folder or Hugging Face name of an encoder.
        loss: loss to minimise: a spec such as `"lambdaloss@10"`, a function or a module.
        settings: other settings by name; see `rankgrad.text.TextSettings`.
    """

    model: ClassVar[str]

    def __init__(self, encoder: str | os.PathLike[str], loss: Any = "softmax", **settings: Any) -> None:
        self.settings = TextSettings.of({**settings, "model": self.model, "encoder": str(encoder), "loss": loss})
        self.model_: TextModel | None = None

    def fit(
        self,
        data: Dataset,
        validation: Dataset | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        callbacks: Iterable[Callback] = (),
        init_model: "TextRanker | TextModel | None" = None,
    ) -> "Self":
        """Train the text ranker, and return it. With validation lists, the ranker has the weights of the best epoch.

        Args:
            data: training lists: a text data set, for example from `rankgrad.text.candidate_lists`.
            validation: validation lists, also a text data set.
            out: folder for the model, checkpoints and log; None to write nothing.
            resume: True to resume from the checkpoint in `out`, if a checkpoint exists.
            progress: True to show a progress bar on a terminal, otherwise one line per epoch. None: only the bar.
            callbacks: functions that are called with the log row of each epoch; a true return value ends the training.
            init_model: fitted ranker. The training starts from the weights of this ranker.
        """
        start = init_model.fitted() if isinstance(init_model, TextRanker) else init_model
        options: dict[str, Any] = {"out": out, "resume": resume, "progress": progress, "callbacks": callbacks}
        kind = kind_named(self.model)
        self.model_ = cast(TextModel, kind.fit(self.settings, data, validation, **options, init_model=start))
        return self

    def fitted(self) -> TextModel:
        """Return the trained text model. Before `fit`, return a model with pretrained weights."""
        if self.model_ is None:
            self.settings.check()
            with torch.random.fork_rng([]):
                torch.manual_seed(self.settings.seed)
                network = build_network(self.settings)
            self._check_untrained(network)
            network.to(chosen_device(self.settings.device)).eval()
            self.model_ = TextModel(network, self.settings.to_json())
        return self.model_

    def _check_untrained(self, network: Any) -> None:
        """Raise an error if the ranker's network cannot score texts before it is trained."""

    def predict(self, data: Dataset) -> NDArray[np.float32]:
        """Return one score per document of a text data set, `(documents,)`.

        Args:
            data: text data set, for example from `rankgrad.text.candidate_lists`.
        """
        return self.fitted().score_lists(data)

    def rerank(self, collection: Collection, run: Mapping[str, Mapping[str, float]], *, depth: int | None = 100) -> Run:
        """Return a run with the best documents of a first run, and with the scores of this text ranker.

        Args:
            collection: documents and queries.
            run: first run, `{query: {document: score}}`, for example from `BM25Index.search`.
            depth: maximum number of documents per query in the new run; None for all.
        """
        data = candidate_lists(collection, run, depth=depth)
        return to_run(data, self.predict(data))

    def score_texts(self, query: str, documents: Sequence[str]) -> NDArray[np.float32]:
        """Return one score of the text ranker per document for a query, `(documents,)`.

        Args:
            query: text of the query.
            documents: texts of the documents.
        """
        if isinstance(documents, str):
            bad_type("documents", "be a list of texts", "one text")
        model = self.fitted()
        with torch.inference_mode(), model.precision():
            scores = model.network.eval().score_texts([query] * len(documents), list(documents))
        return scores.float().cpu().numpy()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the text model to a folder: JSON files, and the folder `encoder` in the format of Hugging Face.

        Args:
            folder: folder of the model.
        """
        self.fitted().save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto") -> "Self":
        """Read a text ranker that was written by `save`, by `fit` or by a command of `rankgrad text`.

        Args:
            folder: folder of the model.
            device: auto, cpu, cuda or cuda:N.
        """
        model = TextModel.load(folder, chosen_device(device))
        if model.settings.get("model") != cls.model:
            bad_value(str(folder), f"contain a {cls.model}", model.settings.get("model"))
        ranker = cls.__new__(cls)
        ranker.settings = replace(TextSettings.of(model.settings), device=device)
        ranker.model_ = model
        return ranker

    def __repr__(self) -> str:
        changed = {
            name: value
            for name, value in self.settings.to_json().items()
            if value != getattr(TextSettings, name, None) and name not in ("model", "encoder", "loss")
        }
        options = "".join(f", {name}={value!r}" for name, value in changed.items())
        named = f"{str(self.settings.encoder)!r}, loss={self.settings.to_json()['loss']!r}"
        return f"{type(self).__name__}({named}{options})"


class BiEncoderRanker(TextRanker):
    """Rank documents by the cosine of two vectors: one of the query, one of the document.

    Before `fit`, the ranker has the pretrained weights, and can already rank.

    Args:
        encoder: folder or Hugging Face name of an encoder. With the prefix `static:`, only the embedding table of the
            encoder is used.
        loss: loss to minimise: a spec such as `"lambdaloss@10"`, a function or a module.
        settings: other settings by name; see `rankgrad.text.TextSettings`.
    """

    model = "bi_encoder"

    def encode(self, texts: Sequence[str], *, documents: bool = True) -> NDArray[np.float32]:
        """Return one vector of length 1 per text, `(texts, width)`, for `rankgrad.text.search_embeddings`.

        Args:
            texts: texts to encode.
            documents: True for documents, which may be split into passages; False for queries.
        """
        if isinstance(texts, str):
            bad_type("texts", "be a list of texts", "one text")
        model = self.fitted()
        assert isinstance(model.network, BiEncoder)
        parts = [np.zeros((0, 0), dtype=np.float32)]
        with torch.inference_mode(), model.precision():
            network = model.network.eval()
            for start in range(0, len(texts), 4096):
                found = network.vectors(texts[start : start + 4096], documents=documents)
                parts.append(found.float().cpu().numpy())
        return np.concatenate(parts[1:]) if len(parts) > 1 else parts[0]


class CrossEncoderRanker(TextRanker):
    """Rank documents with an encoder that reads query and document together.

    Args:
        encoder: folder or Hugging Face name of an encoder or of a cross-encoder.
        loss: loss to minimise: a spec such as `"lambdaloss@10"`, a function or a module.
        settings: other settings by name; see `rankgrad.text.TextSettings`.
    """

    model = "cross_encoder"

    def _check_untrained(self, network: Any) -> None:
        """Raise an error if the encoder has no head, because the scores of a new head would be random."""
        if network.new:
            must = "be a cross-encoder with a trained head, unless `fit` is called first"
            bad_value("encoder", must, f"{self.settings.encoder!r}, whose head would be random")
