"""Write a chart to a file: SVG, PNG, or a page that works offline."""

from os import PathLike
from pathlib import Path
from typing import Any

from rankgrad.errors import bad_value

ENDINGS = (".html", ".svg", ".png")


def check_chart_path(path: str | PathLike[str], option: str = "out") -> None:
    """Check the ending of the file name of a chart, and check that Altair is installed.

    Args:
        path: path of the file.
        option: name of the option that has the path, for messages.
    """
    if Path(path).suffix.lower() not in ENDINGS:
        bad_value(option, f"end in {', '.join(ENDINGS)}", str(path))
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"A chart needs the packages of the extra `report` (pip install 'rankgrad[report]'); got the error {error}"
        ) from error


def save_chart(chart: Any, path: str | PathLike[str]) -> None:
    """Write a chart to a file; the ending of the file name determines the format. An `.html` file contains all scripts.

    Args:
        chart: chart of Altair.
        path: path that ends in `.html`, `.svg` or `.png`.
    """
    check_chart_path(path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"inline": True} if Path(path).suffix.lower() == ".html" else {}
    chart.save(str(path), **options)
