"""Text on the screen: what comes from a file is shown as text, and cannot move the cursor, colour or clear the screen.

A terminal obeys control characters wherever they come from, and so may ids and names in files that others made.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Control characters but for tab and newline; marks that turn the direction of text; halves of characters.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(text: str) -> str:
    r"""The text with each control character spelt out.

    Example:
        >>> shown("doc\x1b[2J")
        'doc\\x1b[2J'
    """
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def screen(**options: Any) -> "Console":
    """A Rich console that spells out the control characters of all that it is given to print."""
    from rich.console import Console

    class Screen(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:
            for segment in super().render(renderable, options):
                # Rich's own control codes come as such, and not as text.
                text = segment.text if segment.control else shown(segment.text)
                yield segment if text == segment.text else segment._replace(text=text)

    return Screen(**options)
