"""Pages of the API reference: one page per public package, with every public name from its docstring.

No name is listed by hand: a page has the names in `__all__` of its package and the functions and classes that the
package exports next to them.
"""

import dataclasses
import importlib
import inspect
import re
import sys
from types import ModuleType
from typing import Any

import rankgrad

from .docstrings import arguments, field_comments

NESTED = ("text.losses",)  # public modules that are not in `rankgrad.__all__`
STOP = "Module, BaseEstimator, Exception, tuple, object"  # members of these base classes are not ours


def modules() -> dict[str, list[str]]:
    """Return the public names of each public module, by the name of the module below `rankgrad`; "" is `rankgrad`."""
    inner = [name for name in rankgrad.__all__ if inspect.ismodule(getattr(rankgrad, name))]
    found = {"": [name for name in rankgrad.__all__ if name not in inner]}
    return found | {name: public_names(importlib.import_module(f"rankgrad.{name}")) for name in (*inner, *NESTED)}


def public_names(module: ModuleType) -> list[str]:
    """Return the names in `__all__` of a module, then the functions and classes of `rankgrad` that it also exports."""
    listed = list(getattr(module, "__all__", ()))
    # A module without `__all__` exports what it defines; a package with `__all__` exports what it imports.
    ours = "rankgrad." if listed else module.__name__
    also = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and name not in listed
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith(ours)
    ]
    return listed + (also if not listed or module.__name__ == "rankgrad.losses" else [])


def pages() -> dict[str, str]:
    """Return the pages, by their paths below the folder of the API reference."""
    found = modules()
    texts = {f"{name or 'rankgrad'}.md": package_page(name, names) for name, names in found.items()}
    return texts | {"index.md": index_page(found)}


def index_page(found: dict[str, list[str]]) -> str:
    """Return the page that lists the packages and their names."""
    parts = ["# API reference", "Every public name, by package. `import rankgrad as rg` loads a package on first use."]
    tree = "\n".join(f"{name or 'rankgrad'}" for name in found)
    rows = []
    for name, names in found.items():
        full = _full(name)
        summary = _summary(importlib.import_module(full))
        links = ", ".join(f"[{each}](#{full}.{each})" for each in names)
        rows.append(f"## [{full}]({name or 'rankgrad'}.md)\n\n{summary}\n\n{links}")
    return "\n\n".join([*parts, *rows, f"```{{toctree}}\n:hidden:\n\n{tree}\n```"]) + "\n"


def package_page(name: str, names: list[str]) -> str:
    """Return the page of one package: its docstring, a table of its names, and each name."""
    full = _full(name)
    module = importlib.import_module(full)
    rows = [f"   * - :py:obj:`{each} <{full}.{each}>`\n     - {_about(full, each)}" for each in names]
    table = ".. list-table::\n   :class: api-names\n   :widths: 30 70\n\n" + "\n".join(rows)
    entries = "\n\n".join(_entry(full, each, getattr(module, each)) for each in names)
    text = inspect.getdoc(module) or ""
    return f"# {full}\n\n```{{eval-rst}}\n{text}\n\n{table}\n\n{entries}\n```\n"


def _full(name: str) -> str:
    return f"rankgrad.{name}" if name else "rankgrad"


def _entry(module: str, name: str, thing: Any) -> str:
    """Return the directive that documents one name."""
    if inspect.isclass(thing):
        lines = [f".. autoclass:: {module}.{name}", "   :members:", f"   :inherited-members: {STOP}"]
        if callable(getattr(thing, "__call__", None)) and "__call__" in vars(thing):  # noqa: B004  # of its instances
            lines.append("   :special-members: __call__")
        return "\n".join(lines)
    if inspect.isfunction(thing):
        return f".. autofunction:: {module}.{name}"
    if isinstance(thing, dict):  # which has the docstring of `dict`
        return f".. py:data:: {module}.{name}\n\n   {_comment(module, name)}"
    return f".. autodata:: {module}.{name}\n   :no-value:"


def _comment(package: str, name: str) -> str:
    """Return the comment above a constant, in the module of the package that defines it."""
    above = re.compile(rf"((?:^# .*\n)+){name}\b[^\n]* = ", re.MULTILINE)
    for other, module in list(sys.modules.items()):
        if other.startswith(package) and (found := above.search(inspect.getsource(module))):
            return " ".join(line.lstrip("# ") for line in found[1].splitlines())
    raise ValueError(f"{package}.{name} must have a comment above its definition")


def _about(module: str, name: str) -> str:
    """Return the summary of a name, or the comment of a constant."""
    thing = getattr(sys.modules[module], name)
    return _comment(module, name) if isinstance(thing, dict) else _summary(thing)


def _summary(thing: Any) -> str:
    """Return the first paragraph of the docstring."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def complete(what: str, thing: Any, lines: list[str]) -> None:
    """Add an `Args:` section with the comments of the fields of a dataclass, and the arguments of overridden methods.

    The reference describes a parameter next to its field, or in the method that is overridden; Sphinx reads neither.
    """
    if what == "class" and (dataclasses.is_dataclass(thing) or hasattr(thing, "_fields")):
        above: dict[str, str] = {}
        for cls in reversed(thing.__mro__):
            if cls.__module__.startswith("rankgrad"):
                above |= field_comments(cls) | (arguments(cls.__doc__) if cls.__doc__ else {})
        _append(lines, above, list(inspect.signature(thing).parameters))
    elif what == "method" and inspect.isfunction(thing):
        _append(lines, _overridden(thing), [name for name in inspect.signature(thing).parameters if name != "self"])


def _overridden(method: Any) -> dict[str, str]:
    """Return the descriptions of arguments in the methods that a method overrides."""
    owner: Any = importlib.import_module(method.__module__)
    for part in method.__qualname__.split(".")[:-1]:
        owner = getattr(owner, part, None)
    found: dict[str, str] = {}
    for cls in reversed(getattr(owner, "__mro__", ())[1:]):
        other = vars(cls).get(method.__name__)
        if inspect.isfunction(other) and cls.__module__.startswith("rankgrad"):
            found |= arguments(other.__doc__)
    return found


def _append(lines: list[str], described: dict[str, str], names: list[str]) -> None:
    """Add descriptions that a docstring lacks: to its `Args:` section, or as a new one."""
    present = arguments("\n".join(lines))
    new = [f"    {name}: {described[name]}" for name in names if name in described and name not in present]
    if not new:
        return
    if "Args:" in lines:
        place = lines.index("Args:") + 1
    else:
        sections = [i for i, line in enumerate(lines) if line in ("Example:", "Returns:", "References:")]
        place = sections[0] if sections else len(lines)
        new = ["", "Args:", *new, ""]
    lines[place:place] = new
