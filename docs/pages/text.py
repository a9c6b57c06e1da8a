"""Page about text: from a folder of texts to a re-ranked run."""

from .templates import fill


def page() -> str:
    """Return the page."""
    return fill("text")
