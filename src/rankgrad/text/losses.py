"""Losses for sentence-transformers: its `CrossEncoderTrainer` can use every loss of `rankgrad.losses`.

This module does not import sentence-transformers. It needs a model of sentence-transformers 5.4 or later.
"""

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rankgrad.errors import bad_type, bad_value
from rankgrad.losses import as_loss
from rankgrad.losses.from_text import TextLoss
from rankgrad.text.chunked_gradients import chunked

__all__ = ["ListwiseLoss"]


class ListwiseLoss(nn.Module):
    """Any loss of `rankgrad.losses` for `sentence_transformers.CrossEncoderTrainer`.

    The training data has three columns: the query (a text), its documents (a list of texts) and their labels (a list of
    numbers). Lists may have different lengths, also 1 or 0. The value is the mean over the lists that have signal; for
    most losses, a list without a relevant document has no signal. The scores are the raw outputs of the model, without
    its activation function.

    The model runs on `chunk` pairs at a time, and runs again in the backward pass, with the same dropout. So the
    gradient is exact for lists of any length, and the memory depends on `chunk`, not on the length of a list. If a
    batch has at most `chunk` pairs, the model runs once.

    The trainer also trains the parameters of a loss such as `learndcg`, with its own learning rate and weight decay.
    `learning_rate_mapping={"ranking_loss": 0.01}` in the training arguments sets another learning rate. In distributed
    training, each process learns different values of these parameters. If you wrap the model in DistributedDataParallel
    yourself, use `broadcast_buffers=False`, as the trainer does: processes may have different numbers of chunks.

    Args:
        model: a `sentence_transformers.CrossEncoder` with one output, `num_labels=1`.
        loss: a spec such as `"lambdaloss@10"` or `"0.7*softmax+0.3*bce"`, a function or a module; see
            `rankgrad.losses.as_loss`. A module is copied.
        chunk: number of pairs of query and document that the model scores at a time.

    Example:
        >>> from sentence_transformers import CrossEncoder, CrossEncoderTrainer  # doctest: +SKIP
        >>> model = CrossEncoder("microsoft/mpnet-base", num_labels=1)  # doctest: +SKIP
        >>> loss = ListwiseLoss(model, "lambdaloss@10", chunk=32)  # doctest: +SKIP
        >>> CrossEncoderTrainer(model, train_dataset=dataset, loss=loss).train()  # doctest: +SKIP
    """

    model: Any  # the trainer may replace it by a wrapper, such as DistributedDataParallel

    def __init__(self, model: Any, loss: str | Callable[..., Tensor] = "softmax", *, chunk: int = 16) -> None:
        super().__init__()
        if not isinstance(model, nn.Module) or not hasattr(model, "preprocess") or not hasattr(model, "num_labels"):
            bad_type("model", "be a CrossEncoder of sentence-transformers 5.4 or later", type(model).__name__)
        if model.num_labels != 1:
            bad_value("model", "have one output, as CrossEncoder(..., num_labels=1) has", f"{model.num_labels} outputs")
        if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
            bad_value("chunk", "be an integer of at least 1", repr(chunk))
        self.model, self.chunk = model, chunk
        # The trainer's model card treats an attribute `loss` as one more loss of sentence-transformers.
        self.ranking_loss = as_loss(loss)
        self.ranking_loss.only_joint("the trainer of sentence-transformers")

    def forward(self, inputs: Sequence[Any], labels: Any, prompt: str | None = None, task: str | None = None) -> Tensor:
        """Compute the loss of a batch. The trainer of sentence-transformers calls this method.

        Args:
            inputs: queries, a list of texts, and documents, a list of lists of texts.
            labels: for each query, a tensor or list with one number per document.
            prompt: prompt that the model's preprocessing adds to the texts.
            task: task that the model's preprocessing uses to choose a route.
        """
        queries, documents = _columns(inputs)
        labels = _labels(labels, documents)
        pairs = [(query, document) for query, texts in zip(queries, documents, strict=True) for document in texts]
        scores = self._scores(pairs, prompt=prompt, task=task)
        offsets = torch.tensor([0, *map(len, documents)], device=scores.device).cumsum(0)
        # Half precision is too coarse for a metric.
        with torch.autocast(scores.device.type, enabled=False):
            return self.ranking_loss(scores.float(), labels.to(scores.device), offsets=offsets)

    def _scores(self, pairs: list[tuple[Any, Any]], **options: Any) -> Tensor:
        """Return the scores of all pairs in a sentence-transformers batch, `(documents,)`."""
        # Pairs of similar length are scored together, because it is expensive to run the model on padding. Without
        # documents, the model scores an empty pair that the loss does not use: so the loss is in the graph, and all
        # processes of a distributed training communicate equally often.
        order = sorted(range(len(pairs)), key=lambda place: -_length(pairs[place]))
        ordered = [pairs[place] for place in order] or [("", "")]
        parts = [ordered[start : start + self.chunk] for start in range(0, len(ordered), self.chunk)]
        chunks = [(place, self.model.preprocess(part, **options)) for place, part in enumerate(parts)]
        scores = chunked(self._score, chunks, device=self.model.device)
        return scores[torch.tensor(order, dtype=torch.long, device=scores.device).argsort()]

    def _score(self, chunk: tuple[int, dict[str, Any]]) -> Tensor:
        place, features = chunk
        features = {name: _moved(value, self.model.device) for name, value in features.items()}
        # Gradients of all chunks are summed up before processes exchange them. The first chunk is the last in the
        # backward pass.
        waits = place > 0 and isinstance(self.model, DistributedDataParallel)
        with self.model.no_sync() if waits else contextlib.nullcontext():
            scores: Tensor = self.model(features)["scores"]
        return scores.reshape(-1)

    def learned(self) -> dict[str, float]:
        """Return the values of the loss's learned parameters by name; empty for most losses."""
        return self.ranking_loss.learned()

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings of the loss, for the model card of sentence-transformers."""
        return {"loss": str(self.ranking_loss), "chunk": self.chunk}

    @property
    def citation(self) -> str:
        """Reference of the loss as a BibTeX entry, for the model card of sentence-transformers."""
        note = " ".join([f"Loss: {self.ranking_loss}.", *_references(self.ranking_loss)])
        return f"\n@misc{{rankgrad,\n  title={{rankgrad: learning to rank in PyTorch}},\n  note={{{note}}}\n}}\n"


def _columns(inputs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Sequence[Any]]]:
    """Return the queries and the lists of documents from the columns of a sentence-transformers batch."""
    if len(inputs) != 2:
        bad_value("inputs", "have two columns (queries, lists of documents), not counting the labels", len(inputs))
    queries, documents = inputs
    if len(documents) != len(queries):
        bad_value("documents", f"have one list per query, {len(queries)}", len(documents))
    for texts in documents:
        if not isinstance(texts, list | tuple):
            bad_value("documents", "have one list of texts per query", f"an entry of type {type(texts).__name__}")
    return queries, documents


def _labels(labels: Any, documents: Sequence[Sequence[Any]]) -> Tensor:
    """Return the labels of all documents in a sentence-transformers batch, `(documents,)`."""
    if not isinstance(labels, list | tuple):
        bad_value("labels", "have one list of numbers per query", "none" if labels is None else type(labels).__name__)
    parts = [torch.as_tensor(part, dtype=torch.float32) for part in labels]
    found, expected = [part.numel() for part in parts], [len(texts) for texts in documents]
    if found != expected:
        bad_value("labels", f"have one number per document, {expected} per query", found)
    return torch.cat([part.reshape(-1) for part in parts]) if parts else torch.zeros(0)


def _length(pair: tuple[Any, Any]) -> int:
    return sum(len(part) for part in pair if isinstance(part, str))


def _moved(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def _references(loss: TextLoss) -> list[str]:
    """Return the references in the docstrings of a loss and its parts."""
    parts = [loss.function, *(type(part) for part in loss.modules())]
    parts += [part.function for part in loss.modules() if isinstance(part, TextLoss)]
    docs = (inspect.getdoc(part) or "" for part in parts)
    found = (textwrap.dedent(doc.partition("References:\n")[2]).partition("\n\n")[0].strip() for doc in docs)
    return list(dict.fromkeys(" ".join(reference.split()) for reference in found if reference))
