"""A minute of the standing attack in every run of the tests, ten minutes in the long ones."""

import pytest
from attack import KINDS, attack, attempt


# Of kinds that prepare for long (runs that are killed, models of every sort) this is one attempt. With this seed, the
# killed run is one of `rankgrad train`.
@pytest.mark.parametrize("kind", KINDS)
def test_a_minute_of_the_standing_attack_finds_nothing(kind):
    assert attack(kind, 1.0, seed=6).total() > 0


# A name `__proto__`, with which Vega fails; an empty number of epochs.
@pytest.mark.parametrize(("kind", "seed", "number"), [("page", 52, 0), ("folders", 35, 10)])
def test_what_an_attack_found_is_mended(kind, seed, number):
    assert attempt(kind, seed, number)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_ten_minutes_of_the_standing_attack_find_nothing(kind):
    ended = attack(kind, 600.0 / len(KINDS), seed=1)
    print(f"{kind}: {ended.total()} attempts:", dict(ended))
