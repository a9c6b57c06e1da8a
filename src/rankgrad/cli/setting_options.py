"""The options of `rankgrad train`, `rankgrad text train` and `distil`: one option per declared setting."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args

import typer

from rankgrad.cli.table_options import help_all
from rankgrad.settings.schema import Schema, declaration

_PANEL = "Settings (default in parentheses)"
_METAVARS = {int: "<int>", float: "<float>", bool: "<bool>"}
_TEXT = "<str>"


def with_setting_options(
    schema: type[Schema], renamed: Mapping[str, str] | None = None, **defaults: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of all settings. The command receives the given values as `settings`.

    The value of an option is text until the check of the setting reads it. A setting whose name is that of another
    parameter of the command has no option.

    Args:
        schema: class of the settings.
        renamed: names of options that differ from the names of the settings.
        defaults: text of the defaults of this command, by setting, if it differs from the declared default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        taken, added, texts = signature(command).parameters, dict[str, Any](), dict[str, Any]()
        names = {each.name: (renamed or {}).get(each.name, each.name) for each in fields(schema)}
        for each in fields(schema):
            if (name := names[each.name]) in taken:
                continue
            about, kinds = declaration(each), get_args(each.type) or (each.type,)
            sentence = about.about.partition(",")[0] if each.name in defaults else about.about
            if not sentence.startswith(str(each.default)):  # a value is not written with a capital letter
                sentence = sentence[:1].upper() + sentence[1:]
            default = defaults.get(each.name, "none" if each.default in (None, ()) else str(each.default))
            metavar = next((_METAVARS[kind] for kind in kinds if kind in _METAVARS), _TEXT)
            option = typer.Option(
                f"--{name.replace('_', '-')}",
                *about.option,
                help=f"{sentence.replace('None', 'none')} ({default})",
                metavar=metavar,
                rich_help_panel=_PANEL,
                hidden=not about.shown,
            )
            added[name] = Annotated[list[str] | None if ... in kinds else str | None, option]
            texts[name] = metavar == _TEXT
        show = typer.Option("--help-all", help="Show all options.", is_eager=True, callback=help_all)

        @wraps(command)
        def run(**given: Any) -> None:
            from rankgrad.cli.argument_checks import parse_value

            given.pop("help_all")
            typed = {name: given.pop(option) for name, option in names.items() if option in added}
            found = {
                name: value if texts[names[name]] else parse_value(value) for name, value in typed.items() if value
            }
            command(settings=found, **given)

        own = {name: each for name, each in taken.items() if name != "settings"}
        added["help_all"] = Annotated[bool, show]
        new = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=None if name in texts else False, annotation=each)
            for name, each in added.items()
        }
        run.__signature__ = Signature([*own.values(), *new.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in (own | new).items()}
        return run

    return decorate
