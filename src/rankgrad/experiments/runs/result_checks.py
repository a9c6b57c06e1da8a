"""Check the JSON of a result: every field has the type that the report expects."""

import math
import re
from collections.abc import Callable
from typing import Any

from rankgrad.errors import bad_type, bad_value

_LEARNED = 100  # maximum number of learned parameters of a loss; the report has one chart per parameter
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_record(record: Any) -> dict[str, Any]:
    """Check the types of all known fields of a result, and return the result; unknown fields are not checked."""
    _mapping("result", record)
    for name in ("cell", "validation", "test", "learned", "versions"):
        _mapping(name, record.get(name))
    for name, check in _FIELDS.items():
        if name in record:
            check(name, record[name])
    for name in ("validation", "test"):
        for metric, value in record[name].items():
            _number(f"{name}.{metric}", value, none=True)
    if len(record["learned"]) > _LEARNED:
        bad_value("learned", f"have at most {_LEARNED} parameters", len(record["learned"]))
    for name, text in record["versions"].items():
        _text(f"versions.{name}", text)
    _list("history", record.get("history"))
    for place, row in enumerate(record["history"]):
        _mapping(f"history[{place}]", row)
        if "epoch" not in row:
            bad_value(f"history[{place}]", "have the key 'epoch'", "no such key")
        for name, value in row.items():
            if type(value) is not float or not -1e100 < value < 1e100:  # this quick test accepts most values
                _number(f"history[{place}].{name}", value, none=name != "epoch")
    _cell(record["cell"])
    return dict(record)


def _cell(cell: dict[str, Any]) -> None:
    for name in ("data", "model", "loss", "stage"):
        _name(f"cell.{name}", cell.get(name))
    if cell.get("variant") is not None:
        _name("cell.variant", cell["variant"])
    for name in ("binary", "refit"):
        if not isinstance(cell.get(name), bool):
            bad_type(f"cell.{name}", "be true or false", repr(cell.get(name))[:40])
    if cell.get("fold") is not None:
        _whole("cell.fold", cell["fold"])
    _whole("cell.trial", cell.get("trial"))
    _whole("cell.settings.seed", _mapping("cell.settings", cell.get("settings")).get("seed", 0))
    for metric in _list("cell.metrics", cell.get("metrics")):
        _name("cell.metrics", metric)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        bad_type(name, "be a JSON object", repr(value)[:40])
    _name(f"keys of {name}", "".join(value))  # in JSON, keys are text
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        bad_type(name, "be a list", repr(value)[:40])
    return value


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        bad_type(name, "be text", repr(value)[:40])


def _name(name: str, value: Any) -> None:
    _text(name, value)
    if odd := _CONTROL.search(value):
        bad_value(name, "contain no control characters", ascii(odd[0]))


def _number(name: str, value: Any, none: bool = False) -> None:
    if none and value is None:
        return
    # Times and metrics are below 1e100; sums of squares of larger values would overflow.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e100 or math.isnan(value):
        bad_value(name, "be a finite number", repr(value)[:40])


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        bad_value(name, "be an integer of at least 0", repr(value)[:40])


def _texts(name: str, value: Any) -> None:
    for each in _list(name, value):
        _text(name, each)


def _maybe_text(name: str, value: Any) -> None:
    if value is not None:
        _text(name, value)


_FIELDS: dict[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("epoch", "peak_memory", "parameters", "threads"), _whole),
    **dict.fromkeys(("seconds", "epoch_seconds"), _number),
    **dict.fromkeys(("commit", "machine", "finished", "peak_memory_of", "device"), _text),
    "warnings": _texts,
    "error": _maybe_text,
}
