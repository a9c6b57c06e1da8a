"""Options that every command has, before or after its name: `--quiet`, `--verbose`, `--debug` and `--import`."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer


@dataclass
class SharedOptions:
    """Shared options of the command that runs."""

    quiet: bool = False  # True: no progress and no messages
    verbose: bool = False  # True: also details, on standard error
    debug: bool = False  # True: an error is shown with its traceback


options = SharedOptions()


def begin(quiet: bool, verbose: bool, debug: bool, custom_modules: Sequence[str] | None) -> None:
    """Set the shared options to the values that were given before the name of the command."""
    options.quiet, options.verbose, options.debug = quiet, verbose, debug
    import_modules(custom_modules)


def import_modules(modules: Sequence[str] | None) -> None:
    """Import modules that register kinds of rankers. Processes that a command starts also import these modules."""
    if modules:
        from rankgrad.models.registry import IMPORTS, import_kinds

        known = [name for name in os.environ.get(IMPORTS, "").split(",") if name]
        os.environ[IMPORTS] = ",".join(dict.fromkeys([*known, *modules]))
        import_kinds()


QUIET = typer.Option("--quiet", help="Print only results, warnings and errors.")
VERBOSE = typer.Option("--verbose", help="Also print details: versions, settings, times.")
DEBUG = typer.Option("--debug", help="Print the traceback of an error.")
IMPORT = typer.Option("--import", help="Module that registers a kind of ranker; repeatable.", metavar="<str>")


def _set(parameter: typer.CallbackParam, given: bool) -> None:
    if given:
        setattr(options, str(parameter.name), True)


def _copies() -> dict[str, tuple[Any, Any]]:
    """Return the annotation and the default of each option after the name of the command; the help omits them."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, option in {"quiet": QUIET, "verbose": VERBOSE, "debug": DEBUG}.items():
        copy = typer.Option(*option.param_decls, help=option.help, hidden=True, callback=_set, is_eager=True)
        found[name] = Annotated[bool, copy], False
    modules = typer.Option(
        *IMPORT.param_decls, help=IMPORT.help, metavar="<str>", hidden=True, callback=import_modules, is_eager=True
    )
    return {**found, "custom_modules": (Annotated[list[str] | None, modules], None)}


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command. Their callbacks use the values, so the command does not get them."""
    copies = _copies()

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in copies})

    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in copies.items()
    ]
    run.__signature__ = Signature([*signature(command).parameters.values(), *added])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{name: each[0] for name, each in copies.items()}}
    return run


def detail(text: str) -> None:
    """Print a line on standard error, with `--verbose` only."""
    if options.verbose:
        from rankgrad.cli.terminal_text import shown

        typer.echo(shown(text), err=True)


@contextmanager
def one_line(*errors: type[Exception]) -> Iterator[None]:
    """Print these errors of a block as one line and end the command with code 1; with `--debug`, raise them."""
    try:
        yield
    except errors as error:
        if options.debug:
            raise
        from rankgrad.cli.option_names import as_typed
        from rankgrad.cli.terminal_text import shown

        typer.echo(f"rankgrad: {shown(as_typed(str(error)))}", err=True)
        raise typer.Exit(1) from None
