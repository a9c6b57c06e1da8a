"""Print text safely on a terminal: text from a file cannot move the cursor, change colours or clear the screen.

A terminal executes control characters. Ids and names from an untrusted file may contain them.
"""

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Control characters except tab and newline; marks that change the direction of text; surrogates.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_WIDE = 10_000  # width at which no line of a table wraps


def shown(text: str) -> str:
    r"""Replace each control character of a text by its escape sequence, for a terminal.

    Example:
        >>> shown("doc\x1b[2J")
        'doc\\x1b[2J'
    """
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def screen(**options: Any) -> "Console":
    """Return a Rich console that prints control characters as escape sequences.

    In a file or a pipe, lines have any length, unless the environment variable COLUMNS is set.
    """
    from rich.console import Console

    class Screen(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:
            for segment in super().render(renderable, options):
                # Rich marks the segments that contain its own control codes. These segments are not text.
                text = segment.text if segment.control else shown(segment.text)
                yield segment if text == segment.text else segment._replace(text=text)

    made = Screen(**options)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDE
    return made
