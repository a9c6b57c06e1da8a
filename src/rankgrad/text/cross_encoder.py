"""Cross-encoder: an encoder reads query and document together, and a head computes the score from [CLS]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from rankgrad.errors import bad_value
from rankgrad.text.encoder_files import save_pretrained
from rankgrad.text.encoder_loading import EncoderFiles
from rankgrad.text.network import Pairs, TextNetwork, best_per_owner, mean_per_owner, owners
from rankgrad.text.token_inputs import TokenInput, Tokeniser


class CrossEncoder(TextNetwork):
    """Cross-encoder that scores pairs with a sequence classification model of `transformers` that has one output.

    If the encoder has no head, the model gets a new head with random weights. A long document has several passages.
    With `passages="mean"`, the head reads the mean of the passages' [CLS] vectors, as in the BERT experiments of the
    SmoothI paper. With `passages="best"`, the score of the document is the score of the best passage.

    Args:
        encoder: folder or name of an encoder or of a cross-encoder with one output.
        max_length, passages, max_document: see `rankgrad.text.token_inputs.Tokeniser`.
        chunk: number of inputs that the encoder reads at once.
    """

    def __init__(
        self,
        encoder: str,
        *,
        max_length: int = 256,
        passages: str = "first",
        max_document: int | None = None,
        chunk: int = 64,
    ) -> None:
        super().__init__()
        files = EncoderFiles(encoder)
        self.model: Any
        self.model, self.new, self.unused = files.model(outputs=1)
        self.tokeniser = Tokeniser.of_encoder(files, self.model, max_length, passages, max_document)
        self.chunk = chunk
        if passages == "mean" and _head_kind(self.model) is None:
            must = "be 'first' or 'best', because the head of this encoder cannot read a mean of [CLS] vectors"
            bad_value("passages", must, "'mean'")

    @property
    def body(self) -> Any:  # type: ignore[override]
        """Pretrained encoder of the cross-encoder, without the head."""
        return self.model.base_model

    def encode(self, batch: dict[str, Tensor]) -> Tensor:
        """Return one cross-encoder score per input, `(n,)`; with `passages="mean"`, one [CLS] vector, `(n, width)`."""
        if self.tokeniser.passages == "mean":
            vectors: Tensor = self.body(**batch).last_hidden_state[:, 0].float()
            return vectors
        scores: Tensor = self.model(**batch).logits[:, 0].float()
        return scores

    def forward(self, pairs: Pairs) -> Tensor:
        """Return one cross-encoder score per pair, `(n,)`."""
        texts = self.texts_in_use()
        keys = [(int(query), int(document)) for query, document in pairs]
        unread = [key for key in dict.fromkeys(keys) if key not in self._cache]
        queries, documents = [texts.queries.full(q) for q, _ in unread], [texts.documents.full(d) for _, d in unread]
        found = dict(zip(unread, self.tokeniser.pairs(queries, documents), strict=True))
        for key, inputs in found.items():
            self._cache.keep(key, inputs)
        return self._scores([self._cache.get(key) or found[key] for key in keys])

    def score_texts(self, queries: Sequence[str], documents: Sequence[str]) -> Tensor:
        """Return one cross-encoder score per pair of texts, `(n,)`."""
        return self._scores(self.tokeniser.pairs(queries, documents))

    def _scores(self, inputs: list[list[TokenInput]]) -> Tensor:
        if not inputs:
            return torch.zeros(0, device=self.device)
        outputs = self.run([each for passages in inputs for each in passages])
        if self.tokeniser.passages == "first":
            return outputs
        owner = owners(map(len, inputs), outputs.device)
        if self.tokeniser.passages == "best":
            return best_per_owner(outputs, owner, len(inputs))
        return _head_scores(self.model, mean_per_owner(outputs, owner, len(inputs))).float()

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the cross-encoder's head."""
        body = {id(parameter) for parameter in self.body.parameters()}
        return [parameter for parameter in self.model.parameters() if id(parameter) not in body]

    def write(self, folder: Path) -> None:
        """Write the cross-encoder for `transformers` and for `CrossEncoder` of `sentence-transformers`."""
        save_pretrained(folder, self.model, self.tokeniser)


def _head_kind(model: Any) -> str | None:
    """Return the kind of a cross-encoder's head: `"pooler"`, `"features"`, `"distilbert"`, or None if unknown."""
    if hasattr(model, "pre_classifier"):
        return "distilbert"
    pooler, classifier = getattr(model.base_model, "pooler", None), getattr(model, "classifier", None)
    if hasattr(pooler, "dense") and hasattr(pooler, "activation") and isinstance(classifier, nn.Linear):
        return "pooler"
    return "features" if classifier is not None and hasattr(classifier, "out_proj") else None


def _head_scores(model: Any, vectors: Tensor) -> Tensor:
    """Apply the head of a cross-encoder to [CLS] vectors, `(n, width)`, and return the scores."""
    kind = _head_kind(model)
    if kind == "distilbert":
        scores = model.classifier(model.dropout(nn.functional.relu(model.pre_classifier(vectors))))
    elif kind == "pooler":
        scores = model.classifier(model.dropout(model.base_model.pooler(vectors[:, None])))
    else:
        scores = model.classifier(vectors[:, None])
    return cast(Tensor, scores[:, 0])
