"""The rankers and losses of a recipe, and what is searched for each: read and checked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rankgrad.errors import bad_value
from rankgrad.experiments.recipes import search_space
from rankgrad.experiments.recipes.errors import RecipeProblems
from rankgrad.models.protocol import RankerKind
from rankgrad.models.registry import kind_or_default


class LossVariant(NamedTuple):
    """A loss that is tried under a label: its settings and, where there are several, its text."""

    variant: str | None
    settings: dict[str, Any]


Losses = dict[str, tuple[LossVariant, ...]]  # by label


class RecipeModel(NamedTuple):
    """A ranker of a recipe: its settings, and the losses and the search that it has instead of the recipe's."""

    settings: dict[str, Any]
    losses: Losses | None = None
    search: dict[str, Any] | None = None

    @property
    def kind(self) -> RankerKind:
        """Of its model."""
        return kind_or_default(self.settings.get("model"))

    def searched(self, usual: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is searched for it, where the recipe's search is the `usual` one."""
        if self.search is not None:
            return self.search
        return usual if self.kind.shares_settings else {}


def models(path: str, value: Any, problems: RecipeProblems) -> dict[str, RecipeModel]:
    """Each label's ranker, from `{model: text, ...}`, maybe with `losses` and `search` of its own."""
    found = {}
    for label, entry in problems.mapping(path, value).items():
        here = f"{path}.{label}"
        settings = problems.mapping(here, entry)
        own = {key: settings.pop(key) for key in ("losses", "search") if key in settings}
        model = settings.get("model")
        settings = problems.settings(here, settings, without=("loss",), model=model)
        with problems.at(here):
            if "model" not in settings:
                bad_value("model", "be given", "none")
        tried = losses(f"{here}.losses", own["losses"], problems, model) if "losses" in own else None
        with problems.at(f"{here}.losses"):
            if tried == {}:
                bad_value("value", "name at least one", "none")
        search = searched(f"{here}.search", own["search"], problems, model) if "search" in own else None
        found[label] = RecipeModel(settings, tried, search)
    return found


def losses(path: str, value: Any, problems: RecipeProblems, model: Any = None) -> Losses:
    """Each label's candidates, from `loss text`, `{loss: text, ...}` or `{variants: [...], ...}`.

    `model` is the text of the ranker that they are for, where they are not for all: kinds have different settings.
    """
    found = {}
    for label, entry in problems.mapping(path, value).items():
        here = f"{path}.{label}"
        shared = {"loss": entry} if isinstance(entry, str) else problems.mapping(here, entry)
        if "variants" not in shared:
            variants: list[Any] = [shared]
        else:
            variants = problems.several(f"{here}.variants", shared.pop("variants"), "variants")
        candidates = []
        for place, variant in enumerate(variants):
            at = here if variant is shared else f"{here}.variants[{place}]"
            own = {"loss": variant} if isinstance(variant, str) else problems.mapping(at, variant)
            without = () if kind_or_default(model).shares_settings else ("model",)
            settings = problems.settings(at, {**shared, **own}, without=without, model=model)
            with problems.at(at):
                if "loss" not in settings:
                    bad_value("loss", "be given", "none")
            candidates.append(LossVariant(None if variant is shared else settings.get("loss"), settings))
        found[label] = tuple(candidates)
    return found


def searched(path: str, value: Any, problems: RecipeProblems, model: Any = None) -> dict[str, Any]:
    """A search space: choices or a range for each setting; `model` as for `losses`."""
    search = problems.mapping(path, value)
    names = {name: choices for name, choices in search.items() if name != "loss"}
    for name, choices in names.items():
        with problems.at(f"{path}.{name}"):
            for each in search_space.boundary_values(choices):
                problems.settings(f"{path}.{name}", {name: each}, model=model)
    with problems.at(path):
        if "loss" in search:
            bad_value("key", "be a setting of a run", "'loss'; losses have a place of their own, and `variants`")
    return names


def check_said_once(found: Mapping[str, Any], problems: RecipeProblems) -> None:
    """No setting may be said in two places of which one would silently win."""
    users = [entrant for entrant in found["models"].values() if entrant.losses is None]
    several, usual = len(users) > 1, found["search"]
    shared = {name for entrant in users for name in entrant.searched(usual)}
    for path, part in [("", found), *((f"data[{place}].", vars(source)) for place, source in enumerate(found["data"]))]:
        places = {f"{path}settings": (part["settings"], set(usual))} if path else {}
        for where, settings in _settings(f"{path}losses", part["losses"]):
            places[where] = settings, shared
            if several and "model" in settings:
                with problems.at(where):
                    bad_value("model", "be left to `models`, of which there are several", repr(settings["model"]))
        for label, entrant in part["models"].items():
            own = set(entrant.searched(usual))
            places[f"{path}models.{label}"] = entrant.settings, own
            for where, settings in _settings(f"{path}models.{label}.losses", entrant.losses or {}):
                places[where] = settings, own
            if not entrant.kind.shares_settings and entrant.losses is None:
                _fit_losses(f"{path}models.{label}", entrant, {**found["losses"], **part["losses"]}, problems)
        for where, (settings, searched) in places.items():
            for name in sorted(searched & set(settings) - {"model"}):
                with problems.at(where):
                    bad_value(name, "be left to the search, which draws it", repr(settings[name]))
    if several and "model" in usual:
        with problems.at("search.model"):
            bad_value("model", "be left to `models`, of which there are several", "a search")


def _settings(path: str, losses: Losses) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path}.{label}", each.settings) for label, tried in losses.items() for each in tried]


def _fit_losses(path: str, entrant: RecipeModel, losses: Losses, problems: RecipeProblems) -> None:
    """A ranker that takes the recipe's losses must be able to take the settings that come with them."""
    for where, settings in _settings("losses", losses):
        problems.settings(f"{path}: {where}", settings, without=("model",), model=entrant.settings["model"])
