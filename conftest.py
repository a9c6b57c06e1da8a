"""Names that every doctest may use, and how hypothesis runs."""

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    import numpy
    import torch

    doctest_namespace["torch"] = torch
    doctest_namespace["np"] = numpy
