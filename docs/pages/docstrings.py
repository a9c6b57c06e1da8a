"""Read the descriptions of parameters from docstrings and from the comments of fields."""

import ast
import inspect
import re
import textwrap

ENTRY = re.compile(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):(.*)")


def arguments(docstring: str | None) -> dict[str, str]:
    """Return the descriptions in the `Args:` section of a docstring, by parameter."""
    found: dict[str, str] = {}
    names: list[str] = []
    lines = iter(inspect.cleandoc(docstring or "").splitlines())
    for line in lines:
        if line == "Args:":
            break
    for line in lines:
        if line and not line.startswith("    "):
            break
        if entry := ENTRY.fullmatch(line):
            names = [name.lstrip("*") for name in entry[1].split(", ")]
            found |= dict.fromkeys(names, entry[2].strip())
        elif names and line.startswith(" " * 8):
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
        elif line:
            raise ValueError(f"a line of `Args:` must name a parameter or continue a description; got {line.strip()!r}")
    return found


def field_comments(cls: type) -> dict[str, str]:
    """Return the comments on the lines of the fields of a class, by field."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno:
            comment = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip().lstrip("# ")
            if comment:
                found[node.target.id] = comment
    return found
