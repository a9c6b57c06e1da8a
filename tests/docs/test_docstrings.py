"""Every parameter of the public surface has a description: in an `Args:` section, or beside a field of a dataclass."""

import dataclasses
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from paths import ROOT

sys.path.append(str(ROOT / "docs"))

from pages import docstrings

# Packages and modules, and public names beside those in `__all__`.
SURFACE = {
    "rankgrad": (),
    "rankgrad.data": (),
    "rankgrad.experiments": (),
    "rankgrad.lists": ("Lists", "as_lists", "compute_dtype", "reduce", "to_flat", "to_padded"),
    "rankgrad.losses": ("as_loss", "gumbel", "parse_loss", "relaxed", "value_and_grad", "weighted_sum"),
    "rankgrad.metrics": (),
    "rankgrad.models": (),
    "rankgrad.rankers": (),
    "rankgrad.relax": (),
    "rankgrad.surrogate": (),
    "rankgrad.text": (),
    "rankgrad.training": (),
    "rankgrad.trees": (),
}


def entries(documented):
    return docstrings.arguments(inspect.getdoc(documented))


def parameters(function):
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in names if not name.startswith("_")]


def faults(what, names, described):
    """Parameters without a description, and descriptions of what is no parameter."""
    missing = [name for name in names if not re.search(r"\w", described.get(name, ""))]
    return [
        *([f"{what} lacks a description of {', '.join(missing)}"] if missing else []),
        *(f"{what} describes {name}, which it does not take" for name in described if name not in names),
    ]


def foreign(thing):
    return not (getattr(thing, "__module__", None) or "").startswith("rankgrad")


def of_function(what, function):
    return faults(what, parameters(function), entries(function))


def of_class(what, cls):
    found = []
    if dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"):
        found += faults(what, parameters(cls), described_fields(cls))
    elif not issubclass(cls, BaseException):  # which nobody makes but us
        found += faults(what, parameters(cls), entries(cls))
    for name in dir(cls):
        if name.startswith("_") and name != "__call__":
            continue
        method = plain(inspect.getattr_static(cls, name))
        if inspect.isfunction(method) and not foreign(method):
            found += of_method(f"{what}.{name}", cls, method)
    return found


def plain(method):
    """The function of a class method or a static one."""
    return method.__func__ if isinstance(method, classmethod | staticmethod) else method


def described_fields(cls):
    """Fields of the class and of those above it, from `Args:` or from comments."""
    found = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("rankgrad"):
            found |= docstrings.field_comments(each) | (entries(each) if each.__doc__ else {})
    return {name: text for name, text in found.items() if name in parameters(cls) or name in entries(cls)}


def of_method(what, cls, method):
    """What a method does not describe may be described by the one that it overrides."""
    above = {}
    for each in reversed(cls.__mro__):
        other = plain(each.__dict__.get(method.__name__))
        if inspect.isfunction(other) and each.__module__.startswith("rankgrad"):
            above |= entries(other)
    names = parameters(method)
    return faults(what, names, {name: text for name, text in above.items() if name in names or name in entries(method)})


def surface():
    """Public functions and classes, once each, by the name under which users know them."""
    seen = {}
    for module_name, more in SURFACE.items():
        module = importlib.import_module(module_name)
        for name in (*getattr(module, "__all__", ()), *more):
            thing = getattr(module, name)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and not foreign(thing):
                seen.setdefault(id(thing), (f"{module_name}.{name}", thing))
    return list(seen.values())


@pytest.mark.parametrize(("what", "thing"), surface(), ids=lambda each: each if isinstance(each, str) else "")
def test_every_parameter_has_a_description(what, thing):
    found = of_class(what, thing) if inspect.isclass(thing) else of_function(what, thing)
    assert not found, "\n".join(found)


def test_the_surface_is_all_there():
    names = {name for name, _ in surface()}
    assert {"rankgrad.backend", "rankgrad.losses.LearnDCG", "rankgrad.losses.gumbel", "rankgrad.lists.reduce"} <= names
    assert {"rankgrad.metrics.Metric", "rankgrad.data.Splits", "rankgrad.relax.neural_sort"} <= names
    assert len(names) > 90
    package = importlib.import_module("rankgrad")
    modules = {f"rankgrad.{name}" for name in package.__all__ if inspect.ismodule(getattr(package, name))}
    assert modules <= set(SURFACE)


class Described(NamedTuple):
    """A tuple."""

    first: int  # the first
    second: int = 0


@dataclass
class Held:
    """A dataclass.

    Args:
        second: the second.
    """

    first: int  # the first
    second: int = 0
    third: int = 0


def described(scores, labels, *, k=None, **options):
    """Do something.

    Args:
        scores, labels: the lists,
            on two lines.
        k:
        options: of something.
        gone: not there any more.

    Example:
        nothing: here
    """


def test_the_check_finds_what_is_missing():
    assert entries(described)["labels"] == "the lists, on two lines."
    assert of_function("f", described) == [
        "f lacks a description of k",
        "f describes gone, which it does not take",
    ]
    assert docstrings.field_comments(Described) == {"first": "the first"}
    assert docstrings.field_comments(Held) == {"first": "the first"}
    assert of_function("f", parameters) == ["f lacks a description of function"]
