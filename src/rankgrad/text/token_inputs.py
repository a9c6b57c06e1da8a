"""Make inputs of an encoder from texts: token ids, passages of long documents, and batches of similar lengths."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankgrad.errors import bad_type, bad_value, one_of
from rankgrad.settings.text import PASSAGES

if TYPE_CHECKING:
    from rankgrad.text.encoder_loading import EncoderFiles

_LARGEST_CACHE = 1_000_000_000  # maximum size, in bytes, of the token inputs that are kept for the next epoch
_SHORTEST = 4  # tokens of an input: two special tokens, and one word each of query and document
_ENTRY = 600  # bytes of an entry of the cache besides its numbers


class TokenInput(NamedTuple):
    """Token ids of one input of an encoder, with special tokens."""

    ids: NDArray[np.int32]
    types: NDArray[np.int8] | None  # token types, for encoders that have them


class Tokeniser:
    """Make inputs from texts, with a tokenizer of `transformers`.

    Args:
        tokenizer: fast tokenizer.
        max_length: maximum number of tokens per input, with special tokens.
        passages: `"first"` uses the beginning of a document. `"mean"` and `"best"` split a document into passages of
            equal length, each short enough for one input.
        max_document: maximum number of tokens of a document. A longer document is truncated before it is split into
            passages. None for no limit.
        special: False to omit special tokens such as [CLS].
        types: True if the encoder reads token types. The inputs contain token types only if the tokenizer returns
            them.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        passages: str,
        max_document: int | None = None,
        *,
        special: bool = True,
        types: bool = True,
    ) -> None:
        one_of("passages", passages, PASSAGES)
        if not getattr(tokenizer, "is_fast", False):
            bad_type("tokenizer", "be a fast tokenizer of transformers", type(tokenizer).__name__)
        self.tokenizer, self.max_length, self.passages = tokenizer, max_length, passages
        self.max_document, self.special = max_document, special
        self.types = types and "token_type_ids" in tokenizer.model_input_names
        self.pad = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    @staticmethod
    def of_encoder(
        files: "EncoderFiles", model: Any, max_length: int, passages: str, max_document: int | None
    ) -> "Tokeniser":
        """Return the tokeniser of an encoder, with the encoder's limit of the length and its token types.

        If the tokenizer has no padding token, tokenizer and model use the end token.

        Args:
            files: files of the encoder.
            model: model of `transformers`.
            max_length, passages, max_document: as in `Tokeniser`.
        """
        tokenizer = files.tokenizer(model.config)
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token_id is None:
                bad_value("encoder", "have a tokenizer with a padding token or an end token", repr(files.encoder))
            tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.pad_token_id  # decoders search the last token that is not padding
        types = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1
        longest = _longest_input(max_length, tokenizer, model)
        return Tokeniser(tokenizer, longest, passages, max_document, types=types)

    def texts(self, texts: Sequence[str]) -> list[TokenInput]:
        """Return the token ids of one input per text. A long text is truncated.

        Args:
            texts: texts.
        """
        return self._inputs(list(texts), None)

    def split(self, texts: Sequence[str], longest: int) -> list[list[str]]:
        """Return the passages of each text as token inputs: at least one passage, and only one with `passages="first"`.

        Args:
            texts: documents.
            longest: maximum number of tokens of a passage.
        """
        if self.passages == "first" or not texts:
            return [[text] for text in texts]
        limit = self.max_document or 1_000_000
        found = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            truncation=True,
            max_length=limit,
        )
        split = []
        for text, places in zip(texts, found["offset_mapping"], strict=True):
            size = math.ceil(len(places) / max(1, math.ceil(len(places) / longest)))
            starts = range(0, len(places), max(1, size))
            split.append([text[places[s][0] : places[min(s + size, len(places)) - 1][1]] for s in starts] or [text])
        return split

    def pairs(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[TokenInput]]:
        """Return the token inputs of each pair of query and document, one input per passage.

        Args:
            queries, documents: texts of the pairs, in the same order.
        """
        if self.passages == "first" or not queries:
            return [[each] for each in self._inputs(list(queries), list(documents))]
        asked = list(dict.fromkeys(queries))
        found = self.tokenizer(asked, add_special_tokens=False, truncation=True, max_length=self.max_length)
        lengths = {query: len(ids) for query, ids in zip(asked, found["input_ids"], strict=True)}
        special = self.tokenizer.num_special_tokens_to_add(pair=True)
        pairs: list[tuple[str, str]] = []
        counts = []
        for query, document in zip(queries, documents, strict=True):
            space = self.max_length - special - min(lengths[query], self.max_length // 2)
            split = self.split([document], max(1, space))[0]
            pairs += [(query, passage) for passage in split]
            counts.append(len(split))
        inputs = self._inputs([query for query, _ in pairs], [passage for _, passage in pairs])
        ends = np.cumsum(counts)
        return [inputs[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def _inputs(self, first: list[str], second: list[str] | None) -> list[TokenInput]:
        if not first:
            return []
        given = (first,) if second is None else (first, second)
        found = self.tokenizer(
            *given,
            truncation="longest_first",
            max_length=self.max_length,
            return_attention_mask=False,
            add_special_tokens=self.special,
        )
        types = [np.array(each, np.int8) for each in found["token_type_ids"]] if self.types else [None] * len(first)
        return [TokenInput(np.array(ids, np.int32), each) for ids, each in zip(found["input_ids"], types, strict=True)]

    def batch(self, inputs: Sequence[TokenInput]) -> dict[str, Tensor]:
        """Return padded tensors for an encoder: `input_ids`, `attention_mask` and, if used, `token_type_ids`.

        Args:
            inputs: inputs of one batch.
        """
        lengths = [len(each.ids) for each in inputs]
        ids = np.full((len(inputs), max(lengths, default=0)), self.pad, dtype=np.int64)
        types = np.zeros_like(ids)
        for row, each in enumerate(inputs):
            ids[row, : lengths[row]] = each.ids
            if each.types is not None:
                types[row, : lengths[row]] = each.types
        mask = np.arange(ids.shape[1]) < np.array(lengths)[:, None]
        batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}
        return {**batch, "token_type_ids": torch.from_numpy(types)} if self.types else batch


class InputCache(dict[Any, list[TokenInput]]):
    """A cache of token inputs by the numbers of their texts. If the cache is full, it does not store new inputs."""

    size = 0  # approximate size in bytes

    def keep(self, key: Any, inputs: list[TokenInput]) -> None:
        """Store a token input, if there is space.

        Args:
            key: number or numbers of the texts.
            inputs: inputs of the text or of the pair, one per passage.
        """
        arrays = [array for each in inputs for array in each if array is not None]
        size = sum(_ENTRY + array.nbytes for array in arrays)
        if self.size + size <= _LARGEST_CACHE:
            self.size += size
            self[key] = inputs


def _longest_input(max_length: int, tokenizer: Any, model: Any) -> int:
    """Return the maximum number of tokens of an input: `max_length`, or the limit of the encoder if that is lower."""
    if not tokenizer.model_max_length >= _SHORTEST:
        got = f"{tokenizer.name_or_path!r} with model_max_length {tokenizer.model_max_length}"
        bad_value("encoder", f"read at least {_SHORTEST} tokens", got)
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 0)
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if (padding := getattr(table, "padding_idx", None)) is not None:
        positions -= padding + 1  # positions of RoBERTa and related encoders begin after that of padding
    return int(min(max_length, tokenizer.model_max_length, positions if positions > 0 else max_length))


def chunks_by_length(inputs: Sequence[TokenInput], size: int) -> tuple[list[list[TokenInput]], Tensor]:
    """Divide token inputs into chunks of similar lengths. Return the chunks, and each input's position in the chunks.

    Args:
        inputs: inputs of any length.
        size: maximum number of inputs per chunk.

    Example:
        >>> inputs = [TokenInput(np.array(ids), None) for ids in ([1], [1, 2])]
        >>> chunks, places = chunks_by_length(inputs, size=1)
        >>> [len(chunk[0].ids) for chunk in chunks], places.tolist()
        ([2, 1], [1, 0])
    """
    order = np.argsort([-len(each.ids) for each in inputs], kind="stable")
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    chunks = [[inputs[place] for place in order[start : start + size]] for start in range(0, len(order), size)]
    return chunks, torch.from_numpy(places)
