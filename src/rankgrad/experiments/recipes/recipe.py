"""A recipe describes an experiment in one YAML file. The class `Recipe` lists the cells of the experiment."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from rankgrad.errors import bad_value, mistyped, one_of
from rankgrad.experiments.recipes.data_sets import RecipeData, missing_data
from rankgrad.experiments.recipes.errors import RecipeProblems
from rankgrad.experiments.recipes.models import LossVariant, RecipeModel
from rankgrad.experiments.recipes.reader import FORMS, Significance, merge, read_fields
from rankgrad.experiments.recipes.shipped import find_recipe
from rankgrad.experiments.recipes.yaml_file import parse_yaml
from rankgrad.experiments.runs.cell import Cell
from rankgrad.metrics import parse_metric
from rankgrad.models.registry import kind_of
from rankgrad.models.search_space import count_draws, draws

CELLS = 100_000  # maximum number of cells of a recipe; our largest recipes have 2,000


class TunedCell(Protocol):
    """Result of a tuning cell of a recipe."""

    @property
    def cell(self) -> Cell: ...
    @property
    def validation(self) -> Mapping[str, float | None]: ...  # value by metric
    @property
    def epoch(self) -> int: ...  # number of the best epoch


class ModelLossPair(NamedTuple):
    """A ranker of a recipe with a loss: one row of a table."""

    model: str  # name of the ranker
    loss: str  # name of the loss
    recipe_model: RecipeModel
    variants: tuple[LossVariant, ...]

    def seeds(self, source: RecipeData) -> tuple[int, ...]:
        """Return the random seeds of this row of the recipe on a data set.

        Args:
            source: entry of `Recipe.data`.
        """
        return self.recipe_model.seeds or source.seeds


@dataclass(frozen=True)
class Recipe:
    """An experiment: each ranker with each loss on each data set, all tuned and evaluated in the same way.

    Example:
        >>> recipe = parse_recipe({
        ...     "title": "Two losses", "data": ["MQ2008"], "folds": [1, 2], "models": {"MLP": {"model": "mlp"}},
        ...     "losses": {"LambdaLoss": "lambdaloss", "Softmax": "softmax"},
        ...     "search": {"lr": [0.001, 0.01, 0.1]}, "trials": 2, "metrics": ["nDCG@10"]})
        >>> len(recipe.cells_to_tune()), recipe.final_count
        (8, 4)
    """

    name: str  # name of the recipe, usually the name of its file without the ending
    title: str  # title that is shown above the table
    answers: str | None  # name of the published table that the recipe reproduces; None if there is none
    data: tuple[RecipeData, ...]  # data sets, with their folds and seeds
    models: Mapping[str, RecipeModel]  # rankers by name
    losses: Mapping[str, tuple[LossVariant, ...]]  # variants by name of the loss; validation chooses one variant
    settings: Mapping[str, Any]  # settings for all rankers whose kind has `shares_settings`
    search: Mapping[str, Any]  # choices or range of each searched setting
    trials: int  # number of random combinations of settings for each row
    search_seed: int  # random seed of the combinations
    choose: str  # metric by which settings are chosen on the validation lists
    metrics: tuple[str, ...]  # metrics on the test lists
    refit: bool  # True: the final runs are trained on the train and validation lists
    spread: str  # meaning of ± in the table: "deviation" (standard deviation over seeds) or "interval" (95% interval)
    tests: Significance  # settings of the significance tests
    form: str | None  # "quick" or "smoke" for a reduced recipe, whose numbers are not results; otherwise None
    notes: str  # settings that the paper states, and our choices
    later: Mapping[str, str]  # reason by row, for the rows of the paper that rankgrad does not support yet
    raw: Mapping[str, Any]  # content of the file

    def reduced(self, form: str) -> "Recipe":
        """Return a reduced form of the recipe: the recipe merged with its part `quick` or `smoke` (see `merge`).

        Args:
            form: `"quick"` or `"smoke"`.
        """
        one_of("form", form, FORMS)
        part = self.raw.get(form)
        return parse_recipe({**merge(_plain(self.raw), part), "form": form} if part else _plain(self.raw), self.name)

    def only(self, *labels: str) -> "Recipe":
        """Return the recipe with only the named data sets. If you also call `reduced`, call `reduced` first.

        Args:
            labels: names of data sets in the table; the case of letters is ignored.
        """
        known = {source.label.lower(): place for place, source in enumerate(self.data)}
        for label in labels:
            if label.lower() not in known:
                one_of("only", label, [source.label for source in self.data])
        places = sorted({known[label.lower()] for label in labels})
        return parse_recipe({**self.raw, "data": [self.raw["data"][place] for place in places]}, self.name)

    def with_settings(self, settings: Mapping[str, Any]) -> "Recipe":
        """Return the recipe with other settings of its rankers. If you also call `reduced`, call `reduced` first.

        A ranker gets a setting if the recipe already gives this setting for the ranker, or if the kind of the ranker
        has this setting. A setting that no ranker has is an error.

        Args:
            settings: settings by name, such as `{"encoder": "models/bert"}`.
        """
        models: dict[str, Any] = dict(self.raw["models"])
        for name, value in settings.items():
            known = {label: {*(each.kind.settings or ()), *each.settings} for label, each in self.models.items()}
            having = [label for label, names in known.items() if name in names]
            if not having:
                names = sorted({each for names in known.values() for each in names})
                bad_value("set", "contain only settings that a ranker of the recipe has", *mistyped(name, names))
            models |= {label: {**models[label], name: value} for label in having}
        return parse_recipe({**self.raw, "models": models}, self.name)

    def dump(self) -> str:
        """Return the recipe as YAML, which `load_recipe` reads."""
        return yaml.safe_dump(dict(self.raw), sort_keys=False, allow_unicode=True, width=120)

    def available(self, root: str | os.PathLike[str] | None = None) -> tuple[list[str], dict[str, str]]:
        """Return the names of the recipe's data sets that exist, and an error message for each missing one, by name.

        Args:
            root: folder of the data sets; None: the folder in the environment variable `RANKGRAD_DATA`.
                If the variable is not set, the current folder is used.
        """
        found = {source.label: missing_data(source, root) for source in self.data}
        return [label for label, where in found.items() if where is None], {
            label: where for label, where in found.items() if where is not None
        }

    @property
    def final_count(self) -> int:
        """Number of final cells of the recipe. The table is computed from the final cells."""
        return sum(len(source.folds) * len(row.seeds(source)) for source in self.data for row in self.rows(source))

    @property
    def cell_count(self) -> int:
        """Upper limit for the number of cells of the recipe. The cells are not created."""
        tuned = 0
        for source in self.data:
            for row in self.rows(source):
                trials = count_draws(row.recipe_model.searched(self.search), self.trials)
                tuned += len(source.folds) * len(row.variants) * trials
        return tuned + self.final_count

    def rows(self, source: RecipeData) -> list[ModelLossPair]:
        """Return the rows of the table of a data set: each ranker of the recipe with each of the ranker's losses.

        A ranker that has no separate losses is combined with each loss of the recipe.

        Args:
            source: entry of `data`.
        """
        found = []
        for label, model in {**self.models, **source.models}.items():
            losses = {**self.losses, **source.losses} if model.losses is None else model.losses
            found += [ModelLossPair(label, loss, model, variants) for loss, variants in losses.items()]
        return found

    def trials_of(self, row: ModelLossPair) -> list[dict[str, Any]]:
        """Return the combinations of settings that are tried for each variant of a row of the recipe.

        The values are random values from the search space of the row.

        Args:
            row: ranker with a loss.
        """
        return draws(row.recipe_model.searched(self.search), self.trials, self.search_seed)

    def cells_to_tune(self) -> list[Cell]:
        """Return the tuning cells of the recipe.

        The results of these cells determine the settings, the loss variant and, for a refit, the number of epochs.
        Tuning cells use the first seed. A row with only one combination of settings and one variant has no tuning
        cells, unless the recipe has a refit.
        """
        return [cell for _, group in self._groups() if self._is_choice(group) for cell in group]

    def chosen(self, finished: Iterable[TunedCell]) -> list[TunedCell]:
        """Return the best tuning run of each data set, fold, ranker and loss of the recipe, by its validation value.

        If several runs have the best value, the first one is chosen. A run that is not in `finished`, or whose value is
        None or NaN, is never chosen.

        Args:
            finished: tuning runs that have ended, in any order.
        """
        known = {run.cell.key: run for run in finished}
        better = 1.0 if parse_metric(self.choose).higher_is_better else -1.0
        best = []
        for _, group in self._groups():
            values = {}
            for cell in group:
                value = known[cell.key].validation.get(self.choose) if cell.key in known else None
                if value is not None and not isnan(value):
                    values[cell.key] = better * value
            if values and self._is_choice(group):
                best.append(known[max(values, key=lambda key: values[key])])
        return best

    def final_cells(self, chosen: Iterable[TunedCell] = ()) -> list[Cell]:
        """Return the final cells of the recipe, from which the table is computed: the chosen settings with every seed.

        Args:
            chosen: return value of the method `chosen`; if it is empty, only rows without tuning have cells.
        """
        known = {run.cell.key: run for run in chosen}
        cells = []
        for seeds, group in self._groups():
            picked, settings = group[0], {}
            if self._is_choice(group):
                run = next((known[cell.key] for cell in group if cell.key in known), None)
                if run is None:
                    continue
                picked = run.cell
                settings = kind_of(picked.settings["model"]).for_length(run.epoch) if self.refit else {}
            for seed in seeds:
                final = {**picked.settings, **settings, "seed": seed}
                cells.append(replace(picked, settings=final, metrics=self.metrics, stage="final", refit=self.refit))
        return cells

    def _is_choice(self, group: list[Cell]) -> bool:
        return len(group) > 1 or self.refit

    def _groups(self) -> Iterator[tuple[tuple[int, ...], list[Cell]]]:
        """Yield the seeds and the tuning cells of each data set, fold, ranker and loss of the recipe.

        All losses of a ranker are tried with the same combinations of searched settings.
        """
        for source in self.data:
            for fold, row in product(source.folds, self.rows(source)):
                first = {"seed": row.seeds(source)[0], "metric": self.choose}
                search, kind = row.recipe_model.searched(self.search), row.recipe_model.kind
                shared = {**self.settings, **source.settings, **first} if kind.shares_settings else first
                trials = enumerate(self.trials_of(row))
                group = []
                for variant, (trial, drawn) in product(row.variants, trials):
                    settings = {**shared, **row.recipe_model.settings, **variant.settings, **drawn}
                    kept = _without_defaults(settings, kind.defaults, search)
                    where = source.name, source.binary, fold, row.model, row.loss, variant.variant
                    group.append(Cell(*where, kept, (self.choose,), "tune", False, trial))
                yield row.seeds(source), group


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe; all errors in its file are raised as one `RecipeError`.

    Args:
        path: path of a YAML file, or name of a recipe of the package, such as `smoothi-table1`.
    """
    path = find_recipe(path)
    return parse_recipe(parse_yaml(Path(path).read_bytes(), str(path)), Path(path).stem, str(path))


def parse_recipe(raw: Any, name: str = "recipe", title: str | None = None) -> Recipe:
    """Make a recipe from the content of its file; check the recipe and its quick and smoke forms.

    Args:
        raw: mapping that was read from YAML.
        name: name of the recipe; `load_recipe` uses the name of the file.
        title: name of the recipe in errors; None to use `name`.
    """
    problems = RecipeProblems()
    found = read_fields(raw, problems)
    for form in FORMS:
        if isinstance(raw, Mapping) and raw.get(form) is not None:
            reduced = RecipeProblems()
            read_fields(merge(_plain(raw), raw[form]), reduced)
            problems.found += [problem.at(form) for problem in reduced.found if problem not in problems.found]
    problems.raise_if_any(title or name)
    recipe = Recipe(name=name, raw=raw, **found)
    with problems.at("recipe"):
        if (cells := recipe.cell_count) > CELLS:
            how = "divide the recipe into several recipes, which may share a results folder"
            bad_value("recipe", f"have at most {CELLS:,} cells ({how})", f"{cells:,}")
    problems.raise_if_any(title or name)
    return recipe


def _plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in FORMS}


def _without_defaults(settings: dict[str, Any], defaults: Mapping[str, Any], searched: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a cell of the recipe that differ from their defaults.

    The model, the loss, the metric, the seed and searched settings are always returned.
    """
    usual = {
        name: value for name, value in defaults.items() if name not in {"model", "loss", "metric", "seed", *searched}
    }
    return {name: value for name, value in settings.items() if name not in usual or value != usual[name]}
