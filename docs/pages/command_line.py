"""Pages of the command line: one page per command, from the program itself."""

import inspect
import re
from typing import Any

import typer

from .templates import table

EXAMPLE = re.compile(r"Examples?: ((?:`[^`]+`[,;.]?\s*)+)")


def pages() -> dict[str, str]:
    """Return the pages, by their paths below the folder of the command line."""
    from rankgrad.cli import app

    group: Any = typer.main.get_command(app)
    found = dict(commands(group, "rankgrad"))
    texts = {f"{_file(name)}.md": command_page(name, command) for name, command in found.items()}
    return texts | {"index.md": index_page(group, found)}


def commands(group: Any, prefix: str) -> list[tuple[str, Any]]:
    """Return the commands of a group and of its groups, by their complete names."""
    found = []
    for name, command in group.commands.items():
        full = f"{prefix} {name}"
        found += commands(command, full) if hasattr(command, "commands") else [(full, command)]
    return found


def index_page(group: Any, found: dict[str, Any]) -> str:
    """Return the page that lists all commands."""
    rows = [[f"[`{name}`]({_file(name)}.md)", _first(command)] for name, command in found.items()]
    tree = "\n".join(f"{name.removeprefix('rankgrad ')} <{_file(name)}>" for name in found)
    parts = [
        "# Command line",
        "This reference is generated from the program. `rankgrad COMMAND --help` prints the same.",
        table(["command", ""], rows),
        "## Options of every command",
        "These options are given before or after the name of the command.",
        options_table(group.params),
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def command_page(name: str, command: Any) -> str:
    """Return the page of one command: help, usage, examples, arguments and options."""
    help = inspect.cleandoc(command.help or "")
    examples = [each for found in EXAMPLE.findall(help) for each in re.findall(r"`([^`]+)`", found)]
    text = EXAMPLE.sub("", help).strip()
    given = [each for each in command.params if each.param_type_name == "argument"]
    # Options of all commands are hidden in the help of a command, and are on the page of the command line.
    shared = {"quiet", "verbose", "debug", "custom_modules"}
    options = [each for each in command.params if each.param_type_name == "option" and each.name not in shared]
    usage = " ".join([name, "[OPTIONS]", *(each.name.upper() for each in given)])
    parts = [f"# {name}", _escaped(text), f"```text\n{usage}\n```"]
    if examples:
        parts += ["## Example" + "s" * (len(examples) > 1), "```text\n" + "\n".join(examples) + "\n```"]
    if given:
        rows = [[f"`{each.name.upper()}`", _type(each), _help(each)] for each in given]
        parts += ["## Arguments", table(["argument", "type", ""], rows)]
    if options:
        parts += ["## Options", options_table(options)]
    return "\n\n".join(part for part in parts if part) + "\n"


def options_table(options: list[Any]) -> str:
    """Return a table of options."""
    rows = []
    for each in options:
        names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        rows.append([names, _type(each), _help(each)])
    return table(["option", "type", ""], rows)


def _help(parameter: Any) -> str:
    """Return the help of an option or argument, with its default."""
    text = _escaped(parameter.help or "").replace("|", r"\|")
    notes = ["required"] if parameter.required else []
    if parameter.show_default and parameter.default not in (None, False, (), []) and not callable(parameter.default):
        values = parameter.default if isinstance(parameter.default, list | tuple) else [parameter.default]
        notes.append(f"default: `{', '.join(map(str, values))}`")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _type(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "switch"
    if parameter.metavar:
        return parameter.metavar.strip("<>[]{}").replace("|", r"\|").lower()
    # Typer 0.29 keeps the annotation; older versions, the type of click.
    described = getattr(parameter, "type_descriptor", None)
    kind = described.annotation if described else parameter.type
    return getattr(kind, "__name__", None) or getattr(kind, "name", None) or str(kind)


def _first(command: Any) -> str:
    """Return the first sentence of a command's help."""
    text = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    return _escaped(re.split(r"(?<=\.)\s", text)[0])


def _escaped(text: str) -> str:
    """Return help as Markdown; `$RANKGRAD_DATA` must not begin a formula."""
    return re.sub(r"(?<![\\`\w])(\$\w+)", r"`\1`", text)


def _file(name: str) -> str:
    return name.removeprefix("rankgrad ").replace(" ", "-")
