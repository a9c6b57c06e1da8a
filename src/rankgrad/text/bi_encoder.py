"""Bi-encoder: query and document become vectors. The score is the cosine of the vectors, divided by a temperature."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rankgrad.settings.text import STATIC
from rankgrad.text.encoder_files import save_pretrained, write_modules
from rankgrad.text.encoder_loading import EncoderFiles, SentenceSettings, sentence_settings
from rankgrad.text.network import Pairs, TextNetwork, Told, best_per_owner, mean_per_owner, owners
from rankgrad.text.static_encoder import StaticBody
from rankgrad.text.token_inputs import TokenInput, Tokeniser

_DOCUMENTS = 1024  # number of documents that are encoded between two reports of progress
_ROWS = 65_536  # number of pairs whose vectors are multiplied at once


class BiEncoder(TextNetwork):
    r"""Bi-encoder that scores pairs by :math:`s = \cos(e(q), e(d)) / T`.

    :math:`e` is the mean of the encoder's output vectors, or the output vector of [CLS]. A long document has several
    passages. With `passages="mean"`, the vector of the document is the mean of the passage vectors. With
    `passages="best"`, the score of the document is the score of the best passage.

    Args:
        encoder: folder or name of an encoder; with the prefix `static:`, only its embedding table is used.
        temperature: temperature of the scores.
        max_length, passages, max_document: see `rankgrad.text.token_inputs.Tokeniser`.
        chunk: number of inputs that the encoder reads at once.
    """

    options = (*TextNetwork.options, "temperature")

    def __init__(
        self,
        encoder: str,
        *,
        temperature: float = 0.05,
        max_length: int = 256,
        passages: str = "first",
        max_document: int | None = None,
        chunk: int = 64,
    ) -> None:
        super().__init__()
        files = EncoderFiles(encoder.removeprefix(STATIC))
        static = StaticBody.saved(files) or (StaticBody.load(files) if encoder.startswith(STATIC) else None)
        self.body: Any
        if static is None:
            self.pooling, self.prompts = sentence_settings(files)
            self.body, self.new, self.unused = files.model()
            self.tokeniser = Tokeniser.of_encoder(files, self.body, max_length, passages, max_document)
        else:
            self.pooling, self.prompts = SentenceSettings()
            tokenizer, self.body = static
            self.tokeniser = Tokeniser(tokenizer, max_length, passages, max_document, special=False, types=False)
        self.temperature, self.chunk = temperature, chunk

    def encode(self, batch: dict[str, Tensor]) -> Tensor:
        """Return one vector of length 1 per input of the bi-encoder, `(n, width)`."""
        hidden = self.body(**batch).last_hidden_state.float()
        if self.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            mask = batch["attention_mask"][..., None].to(hidden.dtype)
            vectors = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        return nn.functional.normalize(vectors, dim=-1)

    def forward(self, pairs: Pairs) -> Tensor:
        """Return one bi-encoder score per pair, `(n,)`. Each query and each document is encoded once."""
        queries, query = np.unique(pairs[:, 0], return_inverse=True)
        documents, document = np.unique(pairs[:, 1], return_inverse=True)
        return self._scores(self._inputs("queries", queries), self._inputs("documents", documents), query, document)

    @torch.no_grad()
    def score_pairs(self, pairs: Pairs, told: Told | None = None) -> NDArray[np.float32]:
        """Return one bi-encoder score per pair, `(n,)`, without gradients. Each text is encoded once, in blocks."""
        if self.tokeniser.passages == "best":  # a document has several vectors
            return super().score_pairs(pairs, told)
        scores = np.empty(len(pairs), dtype=np.float32)
        queries, query = np.unique(pairs[:, 0], return_inverse=True)
        documents, document = np.unique(pairs[:, 1], return_inverse=True)
        asked = self._vectors(self._inputs("queries", queries))
        starts, parts = range(0, len(documents), _DOCUMENTS), [asked[:0]]
        for number, start in enumerate(starts, 1):
            parts.append(self._vectors(self._inputs("documents", documents[start : start + _DOCUMENTS])))
            if told is not None:
                told(number, len(starts))
        found = torch.cat(parts)
        for start in range(0, len(pairs), _ROWS):
            rows = slice(start, start + _ROWS)
            left, right = (torch.from_numpy(each[rows]).to(found.device) for each in (query, document))
            scores[rows] = ((asked[left] * found[right]).sum(-1) / self.temperature).float().cpu().numpy()
        return scores

    def score_texts(self, queries: Sequence[str], documents: Sequence[str]) -> Tensor:
        """Return one bi-encoder score per pair of texts, `(n,)`."""
        every = range(len(queries))
        return self._scores(
            self._query_inputs(queries), self._document_inputs(documents), np.array(every), np.array(every)
        )

    def vectors(self, texts: Sequence[str], *, documents: bool = True) -> Tensor:
        """Return one bi-encoder vector of length 1 per text, `(n, width)`.

        Args:
            texts: texts to encode.
            documents: True for documents, which may be split into passages; False for queries.
        """
        return self._vectors(self._document_inputs(texts) if documents else self._query_inputs(texts))

    def _query_inputs(self, texts: Sequence[str]) -> list[list[TokenInput]]:
        prompt = self.prompts.get("query", "")
        return [[each] for each in self.tokeniser.texts([prompt + text for text in texts])]

    def _document_inputs(self, texts: Sequence[str]) -> list[list[TokenInput]]:
        prompt = self.prompts.get("document", "")
        split = self.tokeniser.split(texts, max(1, self.tokeniser.max_length - 2 - len(prompt.split())))
        flat = self.tokeniser.texts([prompt + passage for passages in split for passage in passages])
        ends = np.cumsum([len(passages) for passages in split])
        return [flat[end - len(passages) : end] for end, passages in zip(ends, split, strict=True)]

    def _inputs(self, kind: str, numbers: Any) -> list[list[TokenInput]]:
        """Return the bi-encoder inputs of queries or documents, by their numbers, from the cache if possible."""
        unread = [int(each) for each in numbers if (kind, int(each)) not in self._cache]
        source = getattr(self.texts_in_use(), kind)
        texts = [source.full(number) for number in unread]
        made = dict(
            zip(unread, (self._document_inputs if kind == "documents" else self._query_inputs)(texts), strict=True)
        )
        for number, inputs in made.items():
            self._cache.keep((kind, number), inputs)
        return [made[int(each)] if int(each) in made else self._cache[kind, int(each)] for each in numbers]

    def _vectors(self, inputs: list[list[TokenInput]]) -> Tensor:
        flat = self.run([each for passages in inputs for each in passages])
        if all(len(passages) == 1 for passages in inputs):
            return flat
        owner = owners(map(len, inputs), flat.device)
        return nn.functional.normalize(mean_per_owner(flat, owner, len(inputs)), dim=-1)

    def _scores(
        self, queries: list[list[TokenInput]], documents: list[list[TokenInput]], query: Any, document: Any
    ) -> Tensor:
        """Return bi-encoder scores of pairs. Queries and documents are encoded together, by similar lengths."""
        if not len(query):
            return torch.zeros(0, device=self.device)
        best = self.tokeniser.passages == "best"
        counts = [len(each) for each in (*queries, *documents)]
        flat = self.run([each for passages in (*queries, *documents) for each in passages])
        if not best and max(counts) > 1:
            flat = mean_per_owner(flat, owners(counts, flat.device), len(counts))
            flat, counts = nn.functional.normalize(flat, dim=-1), [1] * len(counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        wide = np.asarray(counts[len(queries) :])[document]  # number of passages of each pair
        first = starts[len(queries) + document]
        passage = np.repeat(first - np.concatenate([[0], np.cumsum(wide)[:-1]]), wide) + np.arange(wide.sum())
        of_query = torch.from_numpy(np.repeat(starts[query], wide)).to(flat.device)
        scores = (flat[of_query] * flat[torch.from_numpy(passage).to(flat.device)]).sum(-1) / self.temperature
        return best_per_owner(scores, owners(wide, flat.device), len(query)) if wide.max() > 1 else scores

    def head_parameters(self) -> list[nn.Parameter]:
        """Return an empty list: a bi-encoder has no head."""
        return []

    def write(self, folder: Path) -> None:
        """Write files of the bi-encoder that `transformers` and `sentence-transformers` can load."""
        if isinstance(self.body, StaticBody):
            self.body.write(folder, self.tokeniser.tokenizer, self.tokeniser.max_length)
            return
        save_pretrained(folder, self.body, self.tokeniser)
        write_modules(folder, (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
        pooling = {
            "word_embedding_dimension": int(self.body.config.hidden_size),
            "pooling_mode_cls_token": self.pooling == "cls",
            "pooling_mode_mean_tokens": self.pooling == "mean",
        }
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2), encoding="utf-8")
        about = {"prompts": {"query": "", "document": "", **self.prompts}, "similarity_fn_name": "cosine"}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(about, indent=2), encoding="utf-8")
        length = {"max_seq_length": self.tokeniser.max_length, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(length), encoding="utf-8")
