"""Programs that tests start, kill and wait for. None outlives the run of the tests, however that ends."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

CLI = "from rankgrad.cli import main; main()"
# Programs have a session of their own, so that no signal meant for one of the two reaches the other.
_WATCH = """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with SIGINT ignored
def watch():
    while os.getppid() == {parent}:
        time.sleep(0.2)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
"""


def program(*arguments, code=CLI):
    """A program that has begun: `rankgrad`, or other code."""
    command = [sys.executable, "-c", _WATCH.format(parent=os.getpid()) + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def gone(pid):
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition, seconds=60):
    """Wait for a condition, as long as that may take at most."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)


def killed(arguments, folder, kills, seed):
    """Start a command, kill it and what it is doing at a random moment, and so on; how often it was killed."""
    rng, count = random.Random(seed), 0
    for _ in range(kills):
        before, going = set(folder.rglob("*.json")), program(*arguments)
        while going.poll() is None and set(folder.rglob("*.json")) == before:  # until it has done something
            time.sleep(0.01)
        time.sleep(rng.random() * 0.5)
        going.kill()
        going.communicate(timeout=60)  # until no process that could write is left
        count += going.returncode == -signal.SIGKILL
    going = program(*arguments)
    out, err = going.communicate(timeout=300)
    assert going.returncode == 0, err
    return count, out


def run_here(*words):
    """Run a command of the command line as typed, in this process; what it printed."""
    from typer.testing import CliRunner

    from rankgrad.cli import app

    done = CliRunner().invoke(app, [*map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output
