"""Page about a training loop that a user writes."""

from .templates import fill


def page() -> str:
    """Return the page."""
    return fill("own-loop")
