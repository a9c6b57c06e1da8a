"""Most of fifty small changes of the source are noticed by the tests."""

import pytest
from mutants import run


@pytest.mark.long
def test_most_mutants_are_noticed():
    assert run(count=50, seed=1) >= 40
