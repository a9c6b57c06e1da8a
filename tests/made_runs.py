"""A training run and a tuning run that take a second or two, for tests of their pages."""

import pytest
from programs import stdout_of as rankgrad

DATA = "synthetic:lists=40,features=12"
TRAIN = ("train", "--data", DATA, "--model", "linear", "--loss", "learndcg", "--epochs", "4", "--device", "cpu")
TUNE = ("tune", "--data", DATA, "--model", "linear", "--loss", "mse", "--budget", "6", "--epochs", "9", "--jobs", "1")


def make_runs(folder):
    """Train and tune, unless an earlier test did; the folder with both runs, which no test may change."""
    from tiny_study import no_processes

    if not (folder / "best" / "config.json").is_file():
        with pytest.MonkeyPatch.context() as patch:
            no_processes(patch)
            rankgrad(*TRAIN, "--out", folder / "a")
            rankgrad(*TUNE, "--out", folder / "best")
    return folder
