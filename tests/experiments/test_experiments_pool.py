"""A pool of processes: any of them may die, and none continues after its parent."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from paths import TESTS
from programs import gone, program, wait_until

from rankgrad.parallel.process_pool import Pool, Task


def die_once(flag):
    if not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def test_a_pool_lives_through_the_death_of_its_processes(tmp_path):
    tasks = [Task("fine", pow, (2, 5)), Task("dies", os._exit, (3,)), Task("fails", int, ("x",))]
    tasks += [Task("dies once", die_once, (str(tmp_path / "flag"),)), Task("late", pow, (3, 2))]

    def run(tasks):
        return {each.task.name: each for each in workers.run(tasks)}

    with Pool(2, threads=3) as workers:
        with ThreadPoolExecutor(1) as thread:  # which ends before the pool does
            done = thread.submit(run, tasks).result()
            before = thread.submit(run, [Task("who", os.getpid)]).result()
        again = run([Task("who", os.getpid)])
        assert again["who"].value == before["who"].value
        assert not run([Task("light", eval, ("'torch' in __import__('sys').modules",))])["light"].value
        assert run([Task("more", os.getenv, ("OMP_NUM_THREADS",))])["more"].value == "3"
    assert (done["fine"].value, done["late"].value, done["dies once"].value) == (32, 9, "alive")
    assert done["dies"].error == "The process died 2 times, with exit status 3.\n"
    assert "ValueError: invalid literal" in done["fails"].error
    assert done.keys() == {task.name for task in tasks}


# Two processes at work: one that never lets go of Python's lock, one that a thread made. Each says its number first.
AT_WORK = r"""
import threading
from rankgrad.parallel.process_pool import Pool, Task
def work(then):
    code = r"import os, time; os.write(1, b'%d\n' % os.getpid()); " + then  # in one piece: both write at once
    list(Pool(1).run([Task("work", exec, (code,))]))
threading.Thread(target=work, args=("time.sleep(600)",), daemon=True).start()
work("sum(range(10**12))")
"""
# The part of a test run: a program that starts another, as `programs` does it.
IN_TESTS = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from programs import WARM, program
WARM.set_forkserver_preload([])
for line in program(code="import os, time; print(os.getpid(), flush=True); time.sleep(600)").stdout:
    print(line, end="", flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize(("code", "count"), [(AT_WORK, 2), (IN_TESTS, 1)], ids=["of a pool", "of the tests"])
def test_processes_do_not_outlive_a_killed_parent(code, count):
    parent = program(code=code)
    others = [int(parent.stdout.readline()) for _ in range(count)]
    assert not any(map(gone, others))
    parent.kill()
    parent.wait()
    try:
        wait_until(lambda: all(map(gone, others)), seconds=10)
    finally:
        for left in others:
            if not gone(left):
                os.kill(left, signal.SIGKILL)
