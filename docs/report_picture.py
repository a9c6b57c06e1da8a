"""Make the picture of the README, `python docs/report_picture.py`: the top of the page that `rankgrad demo` writes.

It needs Chromium. The page is drawn at 1280 pixels, and the picture ends below the first table.
"""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent / "tests"))

from browser import Browser  # noqa: E402
from pages.readme import PICTURE  # noqa: E402

WIDTH, HEIGHT = 1280, 905


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        subprocess.run([sys.executable, "-m", "rankgrad.cli", "demo", "--out", str(out)], check=True)
        with Browser() as browser:
            browser.open(out / "report.html", width=WIDTH, height=HEIGHT)
            found = browser.call("Page.captureScreenshot", format="png")
    (DOCS / PICTURE).write_bytes(base64.b64decode(found["data"]))


if __name__ == "__main__":
    main()
