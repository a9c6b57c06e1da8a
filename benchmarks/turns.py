"""Time functions in turns, so that other programs disturb all of them."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Seconds of each call of a function, and seconds of the processor."""

    wall: list[float]
    cpu: list[float]


def in_turns(functions: Mapping[str, Callable[[], Any]], repeats: int, slow: Collection[str] = ()) -> dict[str, Times]:
    """Call each function once per round, and return its times; those in `slow` run in the first two rounds only."""
    found = {name: Times([], []) for name in functions}
    for repeat in range(repeats):
        for name, function in functions.items():
            if name not in slow or repeat < 2:
                wall, cpu = time.perf_counter(), time.process_time()
                function()
                found[name].wall.append(time.perf_counter() - wall)
                found[name].cpu.append(time.process_time() - cpu)
    return found
