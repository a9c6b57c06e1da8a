"""Programs that tests start, kill and wait for. None outlives the run of the tests, however that ends.

A program is a process of its own, forked from one that has imported PyTorch and other packages, but nothing of
rankgrad: to import these takes much longer than most programs.
"""

import atexit
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

CLI = "from rankgrad.cli import main; main()"
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["torch._dynamo", "lightning_fabric", "numba.np.arraymath", "pydantic", "rich.table"])


class Program:
    """A program that has begun, with what tests use of `subprocess.Popen`."""

    def __init__(self, code, arguments, environment):
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        ends = Connection(out_end, readable=False), Connection(err_end, readable=False)
        self.process = WARM.Process(target=_run, args=(code, arguments, environment, *ends))
        self.process.start()
        for end in ends:
            end.close()
        self.pid, self.kill, self.wait = self.process.pid, self.process.kill, self.process.join
        atexit.register(self.kill)  # before `multiprocessing` waits for it

    @property
    def returncode(self):
        return self.process.exitcode

    def poll(self):
        return self.process.exitcode

    def send_signal(self, number):
        with suppress(ProcessLookupError):  # it has already ended, as in `subprocess.Popen`
            os.kill(self.pid, number)

    def communicate(self, timeout=None):
        """What it prints, once neither the program nor a process that it started can write any more."""
        with ThreadPoolExecutor(2) as threads:
            streams = [threads.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                told = [stream.result(timeout) for stream in streams]
            except TimeoutError:
                os.killpg(self.pid, signal.SIGKILL)
                raise
        self.wait()
        return told


def _run(code, arguments, environment, *ends):
    """Run code in a new process, as `python -c` does."""
    os.setsid()  # so that no signal meant for the program or for the tests reaches the other
    for number, end in enumerate(ends, 1):
        os.dup2(end.fileno(), number)
        end.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with SIGINT ignored
    end_with_tests()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    multiprocessing.set_start_method(None, force=True)  # the default one, of whatever the program starts
    try:
        exec(code, {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # which `multiprocessing` leaves out


def end_with_tests():
    """End this process, which the tests started, when they end."""

    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def program(*arguments, code=CLI, **environment):
    """A program that has begun: `rankgrad`, or other code."""
    return Program(code, [*map(str, arguments)], environment)


def finished(*arguments, code=CLI):
    """What a program printed, and its exit status."""
    going = program(*arguments, code=code)
    out, err = going.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, going.returncode, out, err)


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
    done = finished(*arguments)
    assert done.returncode == 0, done.stderr
    return count, done.stdout


def invoke(*words, **options):
    """Run a command of the command line as typed, in this process; its result."""
    from typer.testing import CliRunner

    from rankgrad.cli import app

    return CliRunner().invoke(app, [*map(str, words)], **options)


def succeed(*words, **options):
    """The result of a command that should succeed."""
    done = invoke(*words, **options)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def run_here(*words, **options):
    """What a command printed that should succeed."""
    return succeed(*words, **options).output


def stdout_of(*words, **options):
    """What a command printed on standard output."""
    return succeed(*words, **options).stdout
