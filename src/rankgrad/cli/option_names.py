"""Write option names instead of argument names in messages: `batch_size` becomes `--batch-size`.

Errors and warnings of the package name settings in their texts, such as `regroup=True`: see `rankgrad.errors.Named`.
The command line writes each message in one place, with the options of the command that runs.
"""

from typing import TYPE_CHECKING, Any

import typer

from rankgrad.errors import named_text

if TYPE_CHECKING:
    from rankgrad.errors import Setting

_RENAMED = {"root": "data_root", "set": "others", "qid": "query"}  # parameter of the command, by the name in messages
_WIDTH = "width"  # option for the setting `features=` that texts recommend; the option `--features` chooses columns
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


def as_typed(message: object) -> str:
    """Return the text of an error, a warning or advice with option names instead of the settings that it names.

    `regroup=True` becomes `--regroup`, and `lr must be 1` becomes `--lr must be 1`. Settings without an option do not
    change. Other parts of the text, such as specs and what the user has typed, do not change.
    """
    return named_text(message).written(_written)


def _written(setting: "Setting") -> str:
    """Return a setting, its value and the text around it as the user of the command needs it."""
    name = _WIDTH if setting.name == "features" and setting.value is not None else setting.name
    if name in _options and setting.before and name == "missing":
        from rankgrad.cli.missing_option import advice

        return advice(training=bool({"holdout", "minutes"} & _options.keys()))
    if name in _options:
        typed = _typed(_options[name], setting.value)
    elif setting.before and name == "categorical":
        return ""
    elif name in _reader and setting.value is not None:
        typed = f"rankgrad {_READER} {_typed(_reader[name], setting.value)}"
    else:
        return str(setting)
    return f"{setting.before}{typed}{setting.after}"


def _typed(parameter: Any, value: str | None) -> str:
    """Return an option and its value as the user types them. A switch has no value."""
    option = max(parameter.opts, key=len)
    if value in (None, "", "True"):
        return str(option)
    return str(parameter.secondary_opts[0]) if value == "False" and parameter.secondary_opts else f"{option} {value}"
