"""Page about the estimator of networks, with a table of its keywords."""

import inspect

from rankgrad import Ranker

from .docstrings import arguments
from .templates import fill, table


def page() -> str:
    """Return the page."""
    described = arguments(Ranker.__doc__)
    rows = [
        [f"`{name}`", f"`{each.default!r}`".replace("'", '"'), described[name]]
        for name, each in inspect.signature(Ranker).parameters.items()
    ]
    return fill("ranker", keywords=table(["keyword", "default", "meaning"], rows))
