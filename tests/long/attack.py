"""The standing attack: seeded hostile input against the promises, one kind after the other, for a given time.

Each `attack_<kind>.py` in this folder defines `case(rng, folder) -> str`: one attempt, drawn from `rng`, with an empty
`folder` to write to. It returns in a word how the attempt ended (`"refused"`, `"equal"`, ...) and raises
`AssertionError` for a finding. Attempts are numbered; seed and number together repeat one:

    python tests/long/attack.py                            # ten minutes over all kinds
    python tests/long/attack.py --minutes 30               # longer
    python tests/long/attack.py numerics --seed 7 --case 123
"""

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).parent
KINDS = sorted(path.stem.removeprefix("attack_") for path in HERE.glob("attack_*.py"))


def module(kind: str) -> ModuleType:
    """The module of a kind of attack."""
    for folder in (HERE, HERE.parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    return importlib.import_module(f"attack_{kind}")


def attempt(kind: str, seed: int, number: int) -> str:
    """Run one attempt; a finding names the command that repeats it."""
    folder = Path(tempfile.mkdtemp(prefix="rankgrad-attack-"))
    try:
        return module(kind).case(np.random.default_rng([seed, number]), folder)
    except Exception as error:
        command = f"python tests/long/attack.py {kind} --seed {seed} --case {number}"
        raise AssertionError(f"{type(error).__name__}: {error}\n(repeat with: {command})") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attack(kind: str, seconds: float, seed: int = 0) -> Counter[str]:
    """Attempts of one kind until the time is over, one at least; how often they ended in which way."""
    stop = time.monotonic() + seconds
    ended = Counter([attempt(kind, seed, 0)])
    while time.monotonic() < stop:
        ended[attempt(kind, seed, ended.total())] += 1
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", help=f"kinds of attack (default: all): {', '.join(KINDS)}")
    parser.add_argument("--minutes", type=float, default=10.0, help="time for all kinds together (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--case", type=int, help="run only the attempt of this number")
    options = parser.parse_args()
    kinds = options.kind or KINDS
    total = 0
    for kind in kinds:
        if options.case is not None:
            print(kind, attempt(kind, options.seed, options.case))
            continue
        ended = attack(kind, 60.0 * options.minutes / len(kinds), options.seed)
        total += ended.total()
        print(f"{kind}: {ended.total()} attempts, no finding:", ", ".join(f"{n} {how}" for how, n in ended.items()))
        sys.stdout.flush()
    if options.case is None:
        print(f"all kinds: {total} attempts, no finding")


if __name__ == "__main__":
    main()
