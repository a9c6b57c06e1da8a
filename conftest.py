"""Names that every doctest may use, and how hypothesis runs."""

from typing import Any

import pytest
from hypothesis import settings

# The same examples at every run, so that a red test is red again; no deadline, for the first call may compile.
settings.register_profile("rankgrad", max_examples=25, derandomize=True, deadline=None)
settings.load_profile("rankgrad")


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    import numpy
    import torch

    doctest_namespace["torch"] = torch
    doctest_namespace["np"] = numpy
