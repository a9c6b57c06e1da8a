"""Options that are allowed before and after every command name, such as `--quiet` and `--debug`."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from inspect import signature
from typing import Annotated, Any

import typer

from rankgrad.cli.option_groups import option, with_parameters


@dataclass
class SharedOptions:
    """Shared options of the command that runs."""

    quiet: bool = False  # True: no progress and no messages
    verbose: bool = False  # True: also details, on standard error
    debug: bool = False  # True: an error is shown with its traceback
    verify: bool = False  # True: caches of data sets are checked by hashes of complete files


options = SharedOptions()


def begin(quiet: bool, verbose: bool, debug: bool, verify: bool, custom_modules: Sequence[str] | None) -> None:
    """Set the shared options to the values that were given before the name of the command."""
    options.quiet, options.verbose, options.debug, options.verify = quiet, verbose, debug, verify
    import_modules(custom_modules)


def import_modules(modules: Sequence[str] | None) -> None:
    """Import modules that register kinds of rankers. Processes that a command starts also import these modules."""
    if modules:
        from rankgrad.models.registry import IMPORTS, import_kinds

        known = [name for name in os.environ.get(IMPORTS, "").split(",") if name]
        os.environ[IMPORTS] = ",".join(dict.fromkeys([*known, *modules]))
        import_kinds()


def _set(parameter: typer.CallbackParam, given: bool) -> None:
    if given:
        setattr(options, str(parameter.name), True)


def _switch(name: str, help: str) -> tuple[Any, Any]:
    """Return two annotations of a switch: one before the command name, and one after the command name (hidden)."""
    after = typer.Option(f"--{name}", help=help, hidden=True, callback=_set, is_eager=True)
    return Annotated[bool, typer.Option(f"--{name}", help=help)], Annotated[bool, after]


Quiet, _quiet = _switch("quiet", "Print only warnings, errors and the results of commands that measure, list or score.")
Verbose, _verbose = _switch("verbose", "Also print details: versions, settings, times.")
Debug, _debug = _switch("debug", "Print the traceback of an error.")
Verify, _verify = _switch("verify", "Check caches of data sets, and their source files, by hashes of complete files.")
_IMPORT: dict[str, Any] = {"help": "Module that registers a kind of ranker; repeatable.", "metavar": "<str>"}
Import = Annotated[list[str] | None, typer.Option("--import", **_IMPORT)]
_import = Annotated[
    list[str] | None, typer.Option("--import", **_IMPORT, hidden=True, callback=import_modules, is_eager=True)
]
# Options after the name of a command.
_AFTER = (
    option("quiet", _quiet, False),
    option("verbose", _verbose, False),
    option("debug", _debug, False),
    option("verify", _verify, False),
    option("custom_modules", _import, None),
)


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command. Callbacks use the values; the command itself does not receive them."""

    @wraps(command)
    def run(**given: Any) -> None:
        if options.verbose:
            from rankgrad import __version__

            detail(f"rankgrad {__version__}, Python {platform.python_version()}, PyTorch {version('torch')}")
        for each in _AFTER:
            del given[each.name]
        command(**given)

    return with_parameters(run, [*signature(command).parameters.values(), *_AFTER])


def detail(text: str) -> None:
    """Print a line on standard error, with `--verbose` only."""
    if options.verbose:
        from rankgrad.cli.terminal_text import shown

        typer.echo(shown(text), err=True)


@contextmanager
def one_line(*errors: type[Exception], effect: str = "") -> Iterator[None]:
    """Print an error of these types in one line, and end the command with code 1; with `--debug`, raise the error.

    Args:
        errors: types of the errors.
        effect: text at the end of the line, such as `model.onnx was not written`.
    """
    try:
        yield
    except errors as error:
        if options.debug:
            raise
        from rankgrad.cli.option_names import as_typed
        from rankgrad.cli.terminal_text import shown

        typer.echo(f"rankgrad: {shown(as_typed(error))}{effect and f'; {effect}'}", err=True)
        raise typer.Exit(1) from None


def described(help: str, default: str = "", kind: str | None = None, *names: str) -> Any:
    """Return an option of a command, with the default in the help text. Typer would use one more line for it."""
    text = f"{help} (default: {default})" if default else help
    return typer.Option(*names, help=text, metavar=kind, show_default=False)
