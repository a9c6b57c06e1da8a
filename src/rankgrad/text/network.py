"""Base class of text networks, which score pairs of query and document of a collection."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.text.chunked_gradients import chunked
from rankgrad.text.collection import Collection
from rankgrad.text.encoder_files import gradient_checkpointing, to_device
from rankgrad.text.token_inputs import InputCache, TokenInput, Tokeniser, chunks_by_length

Pairs = NDArray[np.int64]  # (n, 2), numbers of query and document
Told = Callable[[int, int], Any]  # function of the number of blocks done, and the number of all blocks
_PAIRS = 1024  # number of pairs that are scored together


class TextNetwork(nn.Module, ABC):
    """An encoder, and the method that computes scores from its outputs.

    `use` sets the collection. `forward(pairs)` returns one score per pair of a query and a document of this collection.
    The encoder runs on chunks of `chunk` inputs, with exact gradients: see `rankgrad.text.chunked_gradients`.
    """

    options: ClassVar[tuple[str, ...]] = ("max_length", "passages", "max_document", "chunk")  # settings it takes
    body: nn.Module
    tokeniser: Tokeniser
    chunk: int

    def __init__(self) -> None:
        super().__init__()
        self.collection: Collection | None = None
        self.new: list[str] = []  # weights that were not in the files of the encoder: random values
        self.unused: list[str] = []  # weights in the files that the network does not have
        self._cache = InputCache()

    def use(self, collection: Collection) -> "TextNetwork":
        """Set the collection whose texts the network reads, and return the network.

        Args:
            collection: documents and queries.
        """
        if collection is not self.collection:
            self.collection, self._cache = collection, InputCache()
        return self

    @property
    def device(self) -> torch.device:
        """Device of the weights of the text network."""
        return next(self.parameters()).device

    @abstractmethod
    def forward(self, pairs: Pairs) -> Tensor:
        """Return one score of the text network per pair, `(n,)`, in float32.

        Args:
            pairs: numbers of query and document, `(n, 2)`.
        """

    @torch.no_grad()
    def score_pairs(self, pairs: Pairs, told: Told | None = None) -> NDArray[np.float32]:
        """Return one score of the text network per pair, `(n,)`, computed in blocks without gradients.

        Args:
            pairs: numbers of query and document, `(n, 2)`.
            told: function that is called after each block, with the numbers of finished blocks and of all blocks.
        """
        scores = np.empty(len(pairs), dtype=np.float32)
        starts = range(0, len(pairs), _PAIRS)
        for number, start in enumerate(starts, 1):
            scores[start : start + _PAIRS] = self(pairs[start : start + _PAIRS]).float().cpu().numpy()
            if told is not None:
                told(number, len(starts))
        return scores

    @abstractmethod
    def score_texts(self, queries: Sequence[str], documents: Sequence[str]) -> Tensor:
        """Return one score of the text network per pair of texts, `(n,)`.

        Args:
            queries, documents: texts of the pairs, in the same order.
        """

    @abstractmethod
    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are not part of the pretrained encoder. These have a separate learning rate."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the text network in the format of Hugging Face.

        Args:
            folder: existing folder.
        """

    def body_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the pretrained encoder."""
        head = {id(parameter) for parameter in self.head_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in head and parameter.requires_grad]

    def checkpoint_layers(self) -> None:
        """Turn on gradient checkpointing: the backward pass computes the activations again."""
        gradient_checkpointing(self.body)

    def run(self, inputs: Sequence[TokenInput]) -> Tensor:
        """Return one output of `encode` per input, `(n, ...)`, computed in chunks.

        Args:
            inputs: inputs of the encoder.
        """
        chunks, places = chunks_by_length(inputs, self.chunk)
        outputs = chunked(self._encode_chunk, [self.tokeniser.batch(each) for each in chunks], device=self.device)
        return outputs[places.to(outputs.device)]

    def _encode_chunk(self, batch: dict[str, Tensor]) -> Tensor:
        return self.encode(to_device(batch, self.device))

    @abstractmethod
    def encode(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the outputs of the encoder for a batch, `(n, ...)`, in float32.

        Args:
            batch: padded token ids on the device of the network.
        """

    def texts_in_use(self) -> Collection:
        """Return the collection that `use` set for the text network."""
        assert self.collection is not None, "call `use` first"
        return self.collection


def owners(counts: Iterable[int], device: torch.device) -> Tensor:
    """Return the index of the owner of each passage, `(passages,)`: the text or pair with the passage.

    Args:
        counts: number of passages of each owner.
        device: device of the result.
    """
    numbers = np.asarray(list(counts), dtype=np.int64)
    return torch.from_numpy(np.repeat(np.arange(len(numbers)), numbers)).to(device)


def mean_per_owner(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the mean of the passage values of each owner, `(count, ...)`.

    Args:
        values: one value or vector per passage, `(passages, ...)`.
        owner: owner of each passage.
        count: number of owners.
    """
    sums = values.new_zeros((count, *values.shape[1:])).index_add(0, owner, values)
    sizes = torch.bincount(owner, minlength=count).to(values.dtype)
    return sums / sizes.reshape(-1, *[1] * (values.dim() - 1))


def best_per_owner(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the best passage value of each owner, `(count,)`. Of several equal values, only the first gets a gradient.

    Args:
        values: one value per passage, `(passages,)`.
        owner: owner of each passage, in increasing order.
        count: number of owners.
    """
    with torch.no_grad():
        most = values.new_full((count,), -torch.inf).scatter_reduce(0, owner, values, "amax")
        places = torch.arange(len(values), device=values.device)
        places = torch.where((values == most[owner]) | values.isnan(), places, len(values))
        first = places.new_full((count,), len(values)).scatter_reduce(0, owner, places, "amin")
    return values[first]
