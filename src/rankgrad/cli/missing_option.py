"""The option `--missing` of all commands that read lists."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankgrad.errors import bad_value

if TYPE_CHECKING:
    from rankgrad.models.protocol import RankerKind

FILLS = ("zero", "mean", "indicator")  # values of `--missing` that a neural ranker applies; the readers keep NaN
NAN = "nan"  # value of `--missing` that keeps NaN
_HELP = "Missing values: error, zero, mean, indicator, a number, or nan (keep NaN)."
Missing = Annotated[str | None, typer.Option("--missing", help=_HELP)]
TrainingMissing = Annotated[str | None, typer.Option("--missing", help="Missing values: error, mean, nan, ...")]
TuningMissing = Annotated[
    str | None, typer.Option("--missing", help=f"{_HELP} Default: nan for trees, otherwise error.", hidden=True)
]
AutoMissing = Annotated[
    str | None, typer.Option("--missing", help=f"{_HELP} Default: trees keep NaN, networks use the mean.", hidden=True)
]
FileMissing = Annotated[
    str | None, typer.Option("--missing", help="Missing values: error, zero, a number, or nan (keep NaN).")
]


def fill_of(missing: str | None) -> Any:
    """Return the number by which a reader replaces missing values, `"error"`, or None if the option is not given."""
    if missing is None or missing == "error":
        return missing
    if missing in FILLS:
        return float("nan")
    try:
        return float(missing)
    except ValueError:
        must = f"'error', {', '.join(map(repr, FILLS))}, a number that replaces missing values, or 'nan' to keep NaN"
        bad_value("--missing", f"be {must}", repr(missing))


def file_fill(missing: str | None) -> Any:
    """Return the number by which `rankgrad convert` replaces missing values, or `"error"`.

    The mean of a column is known only when a network is trained.
    """
    if missing in ("mean", "indicator"):
        must = "be 'error', 'zero', a number, or 'nan' to keep NaN (`rankgrad train` computes means and indicators)"
        bad_value("--missing", must, repr(missing))
    return 0.0 if missing == "zero" else "error" if missing is None else fill_of(missing)


def training_missing(missing: str | None, kind: "RankerKind", settings: Mapping[str, Any], data: str) -> str | None:
    """Return the value of `--missing` of a training; without the option, a kind that accepts NaN reads NaN.

    A benchmark set has its own default. A blend accepts NaN if all its models accept NaN.
    """
    from rankgrad.data.loading import is_benchmark

    if missing is not None or is_benchmark(data):
        return missing
    return NAN if kind.reads_missing(settings) else None


def advice(training: bool) -> str:
    """Return the advice about missing values at the end of an error of a reader, in the words of the command line.

    Args:
        training: True for a command that trains; its option has more values.
    """
    if not training:
        return "(or set --missing to a number that replaces such values)"
    return (
        "(set --missing to mean, indicator or zero for networks, or to a number; trees accept missing values; "
        "`rankgrad inspect` counts them)"
    )
