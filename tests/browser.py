"""Chromium without a window, spoken to over its DevTools pipe: no package and no open port is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
# Answers of Chromium to an expression if the page changes before its value is known.
PAGE_CHANGED = (
    "Inspected target navigated or closed", "Execution context was destroyed.", "Cannot find default execution context",
    "Cannot find context with specified id",
)  # fmt: skip


class PageChanged(RuntimeError):
    """The page was replaced by another one while an expression was computed."""


def executable():
    """Where Chromium is; None where it is not."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page. `with Browser() as browser: browser.open(path)`."""

    def __init__(self, timeout=60):
        self.timeout, self.count, self.buffer = timeout, 0, b""
        self.errors, self.requests = [], []  # what the page complained of; what it asked for
        self.profile = tempfile.mkdtemp(prefix="browser-")
        theirs_in, self.write = os.pipe()
        self.read, theirs_out = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, executable(), *FLAGS, f"--user-data-dir={self.profile}", "--remote-debugging-pipe"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(Exception):
            self.session, self.timeout = None, 5
            self.call("Browser.close")
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)  # its own session: nothing of it stays
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **arguments):
        """The answer to a command; what the page says meanwhile is noted."""
        self.count += 1
        command = {"id": self.count, "method": method, "params": arguments}
        if self.session is not None:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while True:
            message = self._message(end)
            if message.get("id") == self.count:
                if "error" in message:
                    text = message["error"]["message"]
                    raise (PageChanged if text in PAGE_CHANGED else RuntimeError)(f"{method}: {text}")
                return message["result"]
            self._note(message)

    def open(
        self, path, width=1280, height=900, ready="document.documentElement?.dataset.ready === 'yes'", scheme="light"
    ):
        """Open a file at a screen's size and wait until it is ready."""
        self.errors.clear()
        self.requests.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for(ready)

    def evaluate(self, script):
        """The value of an expression, a promise's once it is kept."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", found))
        return found["result"].get("value")

    def wait_for(self, condition):
        """Wait until an expression holds, also over a change of the page."""
        end = time.monotonic() + self.timeout
        while True:
            # A question that was asked while the page changed gets no answer.
            with suppress(PageChanged):
                if self.evaluate(condition):
                    return
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} did not come true; the page said {self.errors}")
            time.sleep(0.05)

    def click(self, selector):
        """Click in the middle of an element with the mouse."""
        script = f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
        script += " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
        script += " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        x, y = self.evaluate(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, selector, value):
        """Choose from a select, or type in a field."""
        script = f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
        self.evaluate(script + " e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); })()")

    def screenshot(self, path, whole=True):
        """A picture of the page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(self._clip() if whole else {}))
        path.write_bytes(base64.b64decode(found["data"]))

    def _clip(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _message(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium did not answer")
            chunk = os.read(self.read, 1 << 16)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self.buffer += chunk
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        what = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in what["args"]))
        elif message.get("method") == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
