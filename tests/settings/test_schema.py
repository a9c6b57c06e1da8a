"""A declared setting has its checks, its option, its JSON value, and its place in an estimator and in documentation."""

import inspect
import re
from dataclasses import dataclass, fields
from typing import Any

import pytest
from typer.main import get_command

import rankgrad as rg
from rankgrad.cli import app
from rankgrad.settings.neural import Settings
from rankgrad.settings.schema import Schema, SettingsError, declaration, documented, setting
from rankgrad.settings.text import TextSettings
from rankgrad.settings.trees import TreeSpec


def upper(text):
    if text != text.lower():
        raise TypeError(f"name must be in small letters; got {text!r}")
    return text.upper()


@documented()
@dataclass(frozen=True)
class Bread(Schema):
    """The settings of a bread.

    Args:
        flour: described by hand.
    """

    what = "a bread"
    searched = ("rest", "grams")
    flour: str = setting("rye", "flour", choices=("rye", "wheat"))
    grams: int = setting(500, "weight", least=100, why="because less dries", search=[500, 750])
    salt: float | None = setting(0.02, "share of salt", least=0, below=1)
    rest: float = setting(12.0, "hours of rest", search={"low": 8, "high": 24})
    seeds: tuple[str, ...] = setting((), "seeds on top", choices=("sesame", "poppy"), on_resume=True)
    sliced: bool = setting(False, "True to slice it", added=True)
    name: Any = setting("bread", "name of the bread", reads=upper, writes=str)


def test_the_checks_are_those_of_the_declarations():
    bad = Bread("oat", 50, 1.0, 0.0, ("sesame", "glass"), "no", "Loaf")
    with pytest.raises(SettingsError) as error:
        bad.check()
    assert str(error.value).splitlines() == [
        "flour must be one of 'rye', 'wheat'; got 'oat'",
        "grams must be at least 100, because less dries; got 50",
        "salt must be below 1; got 1.0",
        "rest must be above 0 and finite; got 0.0",
        "seeds must be one of 'sesame', 'poppy'; got 'glass'",
        "sliced must be True or False; got 'no'",
        "name must be in small letters; got 'Loaf'",
    ]
    with pytest.raises(SettingsError, match="grams must be an integer; got True"):
        Bread(grams=True).check()
    with pytest.raises(SettingsError, match="rest must be a number; got None"):
        Bread(salt=None, rest=None).check()
    with pytest.raises(ValueError, match=r"option must be an option of a bread .*; did you mean 'grams'\?"):
        Bread.of({"gram": 3})


def test_what_settings_mean_how_they_are_written_and_what_may_change():
    given = {"seeds": "poppy", "name": "loaf"}
    checked = Bread.checked(given)
    assert checked is Bread.checked(checked)
    assert (checked.parts["name"], checked.parts["seeds"]) == ("LOAF", ("poppy",))
    told = {"flour": "rye", "grams": 500, "salt": 0.02, "rest": 12.0, "seeds": ["poppy"], "name": "loaf"}
    assert checked.settings.to_json() == told  # without `sliced`, which has its default
    assert Bread.of(told) == checked.settings
    assert Bread(sliced=True).to_json()["sliced"] is True
    assert Bread.changeable() == ("seeds",)
    assert list(Bread.space()) == ["rest", "grams"]


def test_the_documentation_has_one_line_per_setting():
    assert "    flour: described by hand.\n    grams: weight.\n    salt: share of salt.\n" in Bread.__doc__
    for made, schema in ((rg.Ranker, Settings), (rg.trees.TreeRanker, TreeSpec), (Settings, Settings)):
        assert f"    seed: {declaration(schema.__dataclass_fields__['seed']).about}.\n" in made.__doc__


@pytest.mark.parametrize(
    ("estimator", "schema", "other"),
    [(rg.Ranker, Settings, {}), (rg.trees.TreeRanker, TreeSpec, {"threads": None, "params": inspect.Parameter.empty})],
)
def test_the_keywords_of_an_estimator_are_the_declared_settings(estimator, schema, other):
    given = {name: each.default for name, each in inspect.signature(estimator).parameters.items()}
    declared = {each.name: each.default for each in fields(schema)} | other
    assert {name: default for name, default in given.items() if name in declared} == declared
    assert [name for name in given if name in declared] == list(declared)
    assert estimator().get_params() == {name: value for name, value in given.items() if name != "params"}


@pytest.mark.parametrize(
    ("command", "schema", "renamed", "others"),
    [
        ("train", Settings, {}, {"missing": "Missing values: error, mean, nan, ..."}),
        ("text train", TextSettings, {}, {"encoder": "Folder or Hugging Face name of the encoder."}),
        (
            "text distil",
            TextSettings,
            {"temperature": "cosine_temperature"},
            {"encoder": "Folder or name of the student's encoder.", "loss": "(listnet:targets=softmax)"},
        ),
    ],
)
def test_every_setting_is_an_option_with_its_default(command, schema, renamed, others):
    found = get_command(app)
    for word in command.split():
        found = found.commands[word]
    options = {each.name: each for each in found.params}
    for each in fields(schema):
        option = options[renamed.get(each.name, each.name)]
        if each.name in others:
            assert option.help.endswith(others[each.name])
            continue
        default = "none" if each.default in (None, ()) else str(each.default)
        assert re.search(rf"\({re.escape(default)}(; trees: [^)]+)?\)$", option.help), each.name
        assert option.hidden != declaration(each).shown
