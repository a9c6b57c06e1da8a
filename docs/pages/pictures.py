"""Write charts of Altair as SVG."""

import re
from typing import Any


def svg(chart: Any) -> str:
    """Return a chart as SVG without invisible parts: frames, descriptions, digits after tenths of a pixel."""
    import vl_convert

    text = str(vl_convert.vegalite_to_svg(chart.to_dict())) + "\n"
    text = re.sub(r'<path class="(?:fore|back)ground" d="[^"]*"(?: display="none")?/>', "", text)
    text = re.sub(r' (?:aria-[a-z]+|class|role|pointer-events|font-family)="[^"]*"| opacity="1"', "", text)
    text = text.replace("<svg ", '<svg font-family="sans-serif" ', 1)
    # Only inside tags: the texts of the picture keep their digits.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag[0]), text)
