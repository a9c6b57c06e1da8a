"""Read and check the rankers and losses of a recipe, and the search space of each ranker."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rankgrad.errors import bad_value
from rankgrad.experiments.recipes.errors import NO_RANKER, RecipeProblems
from rankgrad.models.protocol import RankerKind
from rankgrad.models.registry import kind_or_default
from rankgrad.models.search_space import boundary_values

_ONLY_MODELS = "be given only in `models`, because there are several models"


class LossVariant(NamedTuple):
    """One variant of a loss of a recipe. If a loss has several variants, validation chooses one of the variants."""

    variant: str | None  # spec of the loss; None if the recipe has no `variants` of the loss
    settings: dict[str, Any]


Losses = dict[str, tuple[LossVariant, ...]]  # variants by name of the loss


class RecipeModel(NamedTuple):
    """A ranker of a recipe."""

    settings: dict[str, Any]
    losses: Losses | None = None  # losses of this ranker; None: the losses of the recipe
    search: dict[str, Any] | None = None  # search space of this ranker; None: see `searched`
    seeds: tuple[int, ...] | None = None  # seeds of this ranker; None: the seeds of the data set

    @property
    def kind(self) -> RankerKind:
        """Kind of this ranker of the recipe."""
        return kind_or_default(self.settings.get("model"))

    def searched(self, usual: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the search space of this ranker of the recipe. `usual` is the search space of the recipe.

        If the ranker has no separate search space, `usual` is returned for a kind with `shares_settings`. For other
        kinds, an empty search space is returned.
        """
        if self.search is not None:
            return self.search
        return usual if self.kind.shares_settings else {}


def read_models(path: str, value: Any, problems: RecipeProblems) -> dict[str, RecipeModel]:
    """Read the rankers of a recipe: entries `{model: spec, ...}`, which may contain `losses`, `search` and `seeds`."""
    found = {}
    for label, entry in problems.mapping(path, value).items():
        here = f"{path}.{label}"
        settings = problems.mapping(here, entry)
        separate = {key: settings.pop(key) for key in ("losses", "search", "seeds") if key in settings}
        spec = {"model": settings.get("model")}
        settings = problems.settings(here, settings, without=("loss",), ranker=spec)
        with problems.at(here):
            if "model" not in settings:
                bad_value("model", "be given", "none")
        ranker = {**spec, **settings}
        tried = read_losses(f"{here}.losses", separate["losses"], problems, ranker) if "losses" in separate else None
        with problems.at(f"{here}.losses"):
            if tried == {}:
                bad_value("value", "have at least one entry", "none")
        search = (
            read_search_space(f"{here}.search", separate["search"], problems, ranker) if "search" in separate else None
        )
        seeds = read_seeds(f"{here}.seeds", separate["seeds"], problems) if "seeds" in separate else None
        found[label] = RecipeModel(settings, tried, search, seeds)
    return found


def read_seeds(path: str, value: Any, problems: RecipeProblems) -> tuple[int, ...]:
    """Read a list of random seeds of a recipe."""
    return tuple(problems.whole_number(path, seed, least=0) for seed in problems.distinct_entries(path, value, "seeds"))


def read_losses(path: str, value: Any, problems: RecipeProblems, ranker: Mapping[str, Any] = NO_RANKER) -> Losses:
    """Read the losses of a recipe: an entry is a spec, `{loss: spec, ...}` or `{variants: [...], ...}`.

    If the losses are for one ranker only, `ranker` contains the settings of this ranker. The kind of this ranker
    determines the known settings.
    """
    found = {}
    for label, entry in problems.mapping(path, value).items():
        here = f"{path}.{label}"
        shared = {"loss": entry} if isinstance(entry, str) else problems.mapping(here, entry)
        if "variants" not in shared:
            entries: list[Any] = [shared]
        else:
            entries = problems.distinct_entries(f"{here}.variants", shared.pop("variants"), "variants")
        variants = []
        for place, variant in enumerate(entries):
            at = here if variant is shared else f"{here}.variants[{place}]"
            given = {"loss": variant} if isinstance(variant, str) else problems.mapping(at, variant)
            without = () if kind_or_default(ranker.get("model")).shares_settings else ("model",)
            settings = problems.settings(at, {**shared, **given}, without=without, ranker=ranker)
            with problems.at(at):
                if "loss" not in settings:
                    bad_value("loss", "be given", "none")
            variants.append(LossVariant(None if variant is shared else settings.get("loss"), settings))
        found[label] = tuple(variants)
    return found


def read_search_space(
    path: str, value: Any, problems: RecipeProblems, ranker: Mapping[str, Any] = NO_RANKER
) -> dict[str, Any]:
    """Read a search space of a recipe: choices or a range for each setting; for `ranker`, see `read_losses`."""
    search = problems.mapping(path, value)
    names = {name: choices for name, choices in search.items() if name != "loss"}
    for name, choices in names.items():
        with problems.at(f"{path}.{name}"):
            for each in boundary_values(choices):
                problems.settings(f"{path}.{name}", {name: each}, ranker=ranker)
    with problems.at(path):
        if "loss" in search:
            how = "losses belong in `losses`, and variants of a loss in `variants`"
            bad_value("key", f"be a setting of a run ({how})", "'loss'")
    return names


def check_search_conflicts(found: Mapping[str, Any], problems: RecipeProblems) -> None:
    """Check that no setting of a recipe is both fixed and searched, and that several models are only in `models`."""
    users = [model for model in found["models"].values() if model.losses is None]
    several, usual = len(users) > 1, found["search"]
    shared = {name for model in users for name in model.searched(usual)}
    for path, part in [("", found), *((f"data[{place}].", vars(source)) for place, source in enumerate(found["data"]))]:
        places = {f"{path}settings": (part["settings"], set(usual))} if path else {}
        for where, settings in _settings(f"{path}losses", part["losses"]):
            places[where] = settings, shared
            if several and "model" in settings:
                with problems.at(where):
                    bad_value("model", _ONLY_MODELS, repr(settings["model"]))
        for label, model in part["models"].items():
            drawn = set(model.searched(usual))
            places[f"{path}models.{label}"] = model.settings, drawn
            for where, settings in _settings(f"{path}models.{label}.losses", model.losses or {}):
                places[where] = settings, drawn
            if not model.kind.shares_settings and model.losses is None:
                _check_losses(f"{path}models.{label}", model, {**found["losses"], **part["losses"]}, problems)
        for where, (settings, searched) in places.items():
            for name in sorted(searched & set(settings) - {"model"}):
                with problems.at(where):
                    bad_value(name, "not be given here, because it is in the search space", repr(settings[name]))
    if several and "model" in usual:
        with problems.at("search.model"):
            bad_value("model", _ONLY_MODELS, "choices in `search`")


def _settings(path: str, losses: Losses) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path}.{label}", each.settings) for label, tried in losses.items() for each in tried]


def _check_losses(path: str, model: RecipeModel, losses: Losses, problems: RecipeProblems) -> None:
    """Check that a ranker of the recipe accepts the settings of the recipe's losses."""
    for where, settings in _settings("losses", losses):
        problems.settings(f"{path}: {where}", settings, without=("model",), ranker=model.settings)
