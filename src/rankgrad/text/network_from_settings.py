"""Make the network of a text ranker from its settings."""

from typing import Any

from rankgrad.text.bi_encoder import BiEncoder
from rankgrad.text.cross_encoder import CrossEncoder
from rankgrad.text.network import TextNetwork
from rankgrad.text.settings import TextSettings


def build_network(settings: TextSettings) -> TextNetwork:
    """Return the network of the settings, with pretrained weights. PyTorch's random seed determines a new head.

    Args:
        settings: checked settings.
    """
    options: dict[str, Any] = {
        "max_length": settings.max_length,
        "passages": settings.passages,
        "max_document": settings.max_document,
        "chunk": settings.chunk,
    }
    if settings.model == "bi_encoder":
        return BiEncoder(settings.encoder, temperature=settings.temperature, **options)
    return CrossEncoder(settings.encoder, **options)
