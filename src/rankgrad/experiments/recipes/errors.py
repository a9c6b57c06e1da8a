"""Collect all errors in a recipe before anything runs; each error has its path in the file."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from rankgrad.errors import Problem, Problems, bad_type, bad_value, mistyped, problems_of
from rankgrad.models.registry import kind_or_default

NO_RANKER: Mapping[str, Any] = MappingProxyType({})  # no ranker: the settings are for all rankers of a recipe


class RecipeError(Problems, ValueError):
    """All errors in a recipe, one per line: the path in the file, then the message."""


class RecipeProblems:
    """List of the errors in a recipe.

    Example:
        >>> problems = RecipeProblems()
        >>> problems.known_keys("settings", {"epoch": 5}, ["epochs", "lr"])
        {}
        >>> print(problems.found[0].text)
        settings: key must be a known key; got 'epoch'; did you mean 'epochs'?
    """

    def __init__(self) -> None:
        self.found: list[Problem] = []

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Add an error of the `with` block to the errors of the recipe; `path` is the place of the error in the file.

        If the same error was already added for an enclosing part of the file, it is not added again. For example,
        an error in the settings of a ranker is not repeated for each loss of this ranker.
        """
        try:
            yield
        except (ValueError, TypeError) as error:
            for problem in problems_of(error):
                if not any(problem.at(path[:end]) in self.found for end in range(len(path))):
                    self.found.append(problem.at(path))

    def known_keys(self, path: str, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Return the entries of a mapping of a recipe that have a known key; add an error for each unknown key."""
        names = list(names)
        for key in values:
            if key not in names:
                with self.at(path):
                    bad_value("key", "be a known key", *mistyped(key, names, f"known: {', '.join(names)}"))
        return {key: value for key, value in values.items() if key in names}

    def mapping(self, path: str, value: Any) -> dict[str, Any]:
        """Return a value of a recipe as a mapping with text keys; None becomes an empty mapping."""
        with self.at(path):
            if value is None:
                return {}
            if not isinstance(value, Mapping):
                bad_type("value", "be a mapping", repr(value))
            return {str(key): inner for key, inner in value.items()}
        return {}

    def settings(
        self, path: str, values: Any, without: Collection[str] = (), ranker: Mapping[str, Any] = NO_RANKER
    ) -> dict[str, Any]:
        """Collect the errors in the settings of a run of a recipe, and return the settings that have a known name.

        The kind of the ranker determines the known names. `ranker` contains the settings of the ranker, at least
        `model`. These settings are checked together with `values`. If `ranker` is empty, `values` contains settings
        for all rankers of the recipe. A setting in `without` belongs in another part of the recipe: here it is an
        error.
        """
        given, kind = self.mapping(path, values), kind_or_default(ranker.get("model"))
        for name, place in kind.elsewhere.items():
            if name in given:
                with self.at(path):
                    bad_value(name, f"be set by {place}", repr(given.pop(name)))
        if kind.settings is not None:
            given = self.known_keys(path, given, [name for name in kind.settings if name not in without])
        with self.at(path):
            if extra := [name for name in without if name in given]:
                bad_value("key", f"be a setting that the kind {kind.name} allows here", repr(extra[0]))
            kind.check(given if kind.shares_settings else {**ranker, **given})
        return given

    def whole_number(self, path: str, value: Any, least: int) -> int:
        """Check that a value of a recipe is an integer of at least `least`, and return the value."""
        with self.at(path):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                bad_value("value", f"be an integer of at least {least}", repr(value))
        return value

    def distinct_entries(self, path: str, value: Any, what: str) -> list[Any]:
        """Check that a value of a recipe is a nonempty list without duplicates, and return the list."""
        with self.at(path):
            if not isinstance(value, list) or not value:
                bad_value("value", f"be a list with at least one entry ({what})", repr(value))
            if any(each in value[:place] for place, each in enumerate(value)):
                bad_value("value", f"contain each entry only once ({what})", repr(value))
            return value
        return []

    def raise_if_any(self, title: str) -> None:
        """Raise one `RecipeError` with all errors of the recipe, if there are any."""
        if self.found:
            raise RecipeError(f"{title} has {len(self.found)} problem(s):", *self.found)
