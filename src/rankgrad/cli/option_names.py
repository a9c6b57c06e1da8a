"""Replace argument names in messages by option names: `batch_size` becomes `--batch-size`.

Errors of the package contain the names of Python arguments, such as `regroup=True`. The command line translates each
message in one place, with the options of the command that runs.
"""

import re
from typing import Any

import typer

_RENAMED = {"root": "data_root", "set": "others", "qid": "query"}  # parameter of the command, by the name in messages
_READER = "convert"  # command with all options of the reader of LETOR files
_options: dict[str, Any] = {}  # options of the command that runs, by name in messages
_reader: dict[str, Any] = {}  # options of the command `convert`


def names_of(context: typer.Context) -> None:
    """Store the options of the command that the context starts, for `as_typed`."""
    commands = getattr(context.command, "commands", {})
    for known, name in ((_options, context.invoked_subcommand), (_reader, _READER)):
        known.clear()
        parameters = commands[name].params if name in commands else ()
        known.update({each.name: each for each in parameters if each.param_type_name == "option"})
        known.update({name: known[other] for name, other in _RENAMED.items() if other in known})
        known.update({"qid": known["query_column"]} if "query_column" in known else {})


def as_typed(message: str) -> str:
    """Return a message with option names: `regroup=True` becomes `--regroup`; `lr must be 1` becomes `--lr must be 1`.

    Specs, such as `synthetic:lists=40,seed=1`, do not change. Names without an option do not change. A message with a
    traceback, which contains source code, does not change.
    """
    if _TRACEBACK in message:
        return message
    if "missing= " in message:
        from rankgrad.cli.missing_option import advice
        from rankgrad.data.tables.errors import FILL_ADVICE

        training = bool({"holdout", "minutes"} & _options.keys())
        message = message.replace(FILL_ADVICE, advice(training)) if "missing" in _options else message
    if "categorical=" in message and "categorical" not in _options:
        from rankgrad.data.tables.errors import TEXT_ADVICE

        message = message.replace(f" {TEXT_ADVICE}", "")
    return _VALUE.sub(_value, _SUBJECT.sub(_subject, message))


_TRACEBACK = "Traceback (most recent call last):"
# At the beginning of a line, also after the name of a file.
_SUBJECT = re.compile(r"(?:^|(?<=: ))[a-z][a-z_]*(?= must )", re.MULTILINE)
# An argument as Python writes it, after a space, a bracket or a backtick. After other characters, it is part of a spec.
_VALUE = re.compile(r"(?<![^\s(`])(?P<name>[a-z][a-z_]*)=(?P<value>[\w.'\"-]*[\w'\"])?(?![\w(=])")


def _subject(found: re.Match[str]) -> str:
    return _typed(_options[found[0]]) if found[0] in _options else found[0]


def _value(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if name in _options:
        return _typed(_options[name], value)
    return f"rankgrad {_READER} {_typed(_reader[name], value)}" if name in _reader else found[0]


def _typed(parameter: Any, value: str | None = None) -> str:
    """Return an option and its value as the user types them. A switch has no value."""
    option = max(parameter.opts, key=len)
    if value in (None, "True"):
        return str(option)
    return str(parameter.secondary_opts[0]) if value == "False" and parameter.secondary_opts else f"{option} {value}"
