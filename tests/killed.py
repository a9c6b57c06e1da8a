"""Runs a command that is killed (SIGKILL) after it has written a file a given number of times.

`python tests/killed.py last.safetensors 3 train --data ... --out run` always ends with the same files in `run`.
"""

import os
import signal
import sys
from pathlib import Path


def kill_after(name: str, times: int) -> None:
    """Kill this process when a file of this name is written for the n-th time: every file is renamed into place."""
    rename, left = os.replace, [times]

    def replace(source, target, **options):
        rename(source, target, **options)
        left[0] -= Path(target).name == name
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace


if __name__ == "__main__":
    kill_after(sys.argv[1], int(sys.argv[2]))
    sys.argv[:3] = ["rankgrad"]
    from rankgrad.cli import main

    main()
