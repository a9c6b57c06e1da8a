"""Make the network of a text ranker from its settings."""

from typing import Any, NoReturn

import torch

from rankgrad.settings.text import TextSettings
from rankgrad.text.bi_encoder import BiEncoder
from rankgrad.text.cross_encoder import CrossEncoder
from rankgrad.text.encoder_loading import library_message
from rankgrad.text.network import TextNetwork

_NETWORKS: dict[str, Any] = {"bi_encoder": BiEncoder, "cross_encoder": CrossEncoder}


def build_network(settings: TextSettings) -> TextNetwork:
    """Return the network of the settings, with pretrained weights. PyTorch's random seed determines a new head.

    Args:
        settings: checked settings.
    """
    kind = _NETWORKS[settings.model]
    try:
        network = kind(settings.encoder, **{name: getattr(settings, name) for name in kind.options})
    except (TypeError, AttributeError, ArithmeticError, LookupError) as error:
        _refuse(settings.encoder, f"the error {library_message(error)}", error)
    _check_scores(network, settings.encoder)
    return network


def _check_scores(network: TextNetwork, encoder: str) -> None:
    """Score a short text, because sizes and options that do not fit together often raise an error only then."""
    try:
        with torch.inference_mode():
            network.score_texts(["a"], ["a"])
        tokens = max(network.tokeniser.tokenizer.get_vocab().values(), default=0)
        body: Any = network.body
        rows = len(body.get_input_embeddings().weight)
    except Exception as error:
        _refuse(encoder, f"the error {library_message(error)}", error)
    if tokens >= rows:
        _refuse(encoder, f"the number {tokens} of a token, but {rows} rows in the table of tokens")


def _refuse(encoder: str, got: str, cause: Exception | None = None) -> NoReturn:
    raise ValueError(f"the JSON files in {encoder} must describe an encoder of text; got {got}") from cause
