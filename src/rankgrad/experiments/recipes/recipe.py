"""A recipe: one YAML file that says what an experiment compares, and the cells that it comes to."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from rankgrad.errors import bad_value, one_of
from rankgrad.experiments.recipes.data_sets import RecipeData, missing
from rankgrad.experiments.recipes.errors import RecipeProblems
from rankgrad.experiments.recipes.models import LossVariant, RecipeModel
from rankgrad.experiments.recipes.reader import FORMS, Significance, merge, parts
from rankgrad.experiments.recipes.search_space import count_settings, draws
from rankgrad.experiments.recipes.yaml_file import parse_yaml
from rankgrad.experiments.runs.cell import Cell
from rankgrad.metrics import parse_metric as parse_metric
from rankgrad.models.registry import kind_of

CELLS = 100_000  # of a recipe, at most; our largest have 2,000


class TunedCell(Protocol):
    """What is known of a tuning cell that has run."""

    @property
    def cell(self) -> Cell: ...
    @property
    def validation(self) -> Mapping[str, float | None]: ...  # by metric
    @property
    def epoch(self) -> int: ...  # the best


class ModelLossPair(NamedTuple):
    """A ranker with a loss: what a row of the table is of."""

    model: str  # label
    loss: str  # label
    entrant: RecipeModel
    candidates: tuple[LossVariant, ...]


@dataclass(frozen=True)
class Recipe:
    """What an experiment compares: data sets x rankers x losses, tuned alike, judged alike.

    Example:
        >>> recipe = parse({
        ...     "title": "Two losses", "data": ["MQ2008"], "folds": [1, 2], "models": {"MLP": {"model": "mlp"}},
        ...     "losses": {"LambdaLoss": "lambdaloss", "Softmax": "softmax"},
        ...     "search": {"lr": [0.001, 0.01, 0.1]}, "trials": 2, "metrics": ["nDCG@10"]})
        >>> len(recipe.cells_to_tune()), recipe.final_count
        (8, 4)
    """

    name: str  # of the file
    title: str  # shown above the table
    answers: str | None  # a table of `rankgrad.experiments.tables.published`
    data: tuple[RecipeData, ...]  # data sets, with their folds and seeds
    models: Mapping[str, RecipeModel]  # by label
    losses: Mapping[str, tuple[LossVariant, ...]]  # label -> the loss, or the variants that validation chooses from
    settings: Mapping[str, Any]  # of every run whose kind shares them
    search: Mapping[str, Any]  # setting -> its choices, or its range
    trials: int  # number of settings drawn for each row
    search_seed: int  # random seed of the draw
    choose: str  # metric
    metrics: tuple[str, ...]  # measured on the test lists
    refit: bool  # the final runs are trained on train and validation
    spread: str  # what ± is in the table, over seeds: the standard "deviation", or the 95% "interval" of the mean
    tests: Significance  # how differences are judged
    notes: str  # what the paper says, and what was chosen
    later: Mapping[str, str]  # rows of the paper that rankgrad cannot make yet -> why
    raw: Mapping[str, Any]  # as read

    def reduced(self, form: str) -> "Recipe":
        """Return the recipe with its `quick` or `smoke` overrides: mappings are merged, null takes a key away.

        Args:
            form: `"quick"` or `"smoke"`.
        """
        one_of("form", form, FORMS)
        return parse_recipe(merge(_plain(self.raw), self.raw.get(form) or {}), self.name)

    def only(self, *labels: str) -> "Recipe":
        """Return the recipe for some of its data sets; of a reduced recipe, take these after reducing it.

        Args:
            labels: names of data sets, as the table shows them; case does not matter.
        """
        known = {source.label.lower(): place for place, source in enumerate(self.data)}
        for label in labels:
            if label.lower() not in known:
                one_of("only", label, [source.label for source in self.data])
        places = sorted({known[label.lower()] for label in labels})
        return parse_recipe({**self.raw, "data": [self.raw["data"][place] for place in places]}, self.name)

    def dump(self) -> str:
        """The recipe as YAML, which `load` reads again."""
        return yaml.safe_dump(dict(self.raw), sort_keys=False, allow_unicode=True, width=120)

    def available(self, root: str | os.PathLike[str] | None = None) -> tuple[list[str], dict[str, str]]:
        """The labels of the data sets that are there, and for each that is not, where to put it.

        Args:
            root: the folder the sets lie in; None for the environment variable `RANKGRAD_DATA`, then the current
                folder.
        """
        found = {source.label: missing(source, root) for source in self.data}
        return [label for label, where in found.items() if where is None], {
            label: where for label, where in found.items() if where is not None
        }

    @property
    def final_count(self) -> int:
        """How many cells the table is made of."""
        return sum(len(source.folds) * len(source.seeds) * len(self.rows(source)) for source in self.data)

    @property
    def cell_count(self) -> int:
        """How many cells there are at most, counted without making them."""
        tuned = 0
        for source in self.data:
            for row in self.rows(source):
                tuned += (
                    len(source.folds)
                    * len(row.candidates)
                    * count_settings(row.entrant.searched(self.search), self.trials)
                )
        return tuned + self.final_count

    def rows(self, source: RecipeData) -> list[ModelLossPair]:
        """The rows of a data set's table: each ranker with the recipe's losses, or with its own.

        Args:
            source: one of `data`.
        """
        found = []
        for model, entrant in {**self.models, **source.models}.items():
            losses = {**self.losses, **source.losses} if entrant.losses is None else entrant.losses
            found += [ModelLossPair(model, loss, entrant, candidates) for loss, candidates in losses.items()]
        return found

    def cells_to_tune(self) -> list[Cell]:
        """The runs on the first seed that choose settings, variants and, for a refit, epochs; none without a choice."""
        return [cell for _, group in self._groups() if self._is_choice(group) for cell in group]

    def chosen(self, finished: Iterable[TunedCell]) -> list[TunedCell]:
        """The best run on validation for each data set, fold, ranker and loss; of equals, the first.

        A run that failed is not among the finished ones, or has no value; where none is left, nothing is chosen.

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
        """The runs that the table is made of: the chosen ones, with every seed; those without a choice as they are.

        Args:
            chosen: what the method `chosen` gave; without it only rows that need no choice are there.
        """
        known = {run.cell.key: run for run in chosen}
        cells = []
        for source, group in self._groups():
            picked, settings = group[0], {}
            if self._is_choice(group):
                run = next((known[cell.key] for cell in group if cell.key in known), None)
                if run is None:
                    continue
                picked = run.cell
                settings = kind_of(picked.settings["model"]).for_length(run.epoch) if self.refit else {}
            for seed in source.seeds:
                own = {**picked.settings, **settings, "seed": seed}
                cells.append(replace(picked, settings=own, metrics=self.metrics, stage="final", refit=self.refit))
        return cells

    def _is_choice(self, group: list[Cell]) -> bool:
        return len(group) > 1 or self.refit

    def _groups(self) -> Iterator[tuple[RecipeData, list[Cell]]]:
        """The candidates of each data set, fold, ranker and loss. The settings drawn are the same for all losses."""
        for source in self.data:
            first = {"seed": source.seeds[0], "metric": self.choose}
            for fold, row in product(source.folds, self.rows(source)):
                search, kind = row.entrant.searched(self.search), row.entrant.kind
                shared = {**self.settings, **source.settings, **first} if kind.shares_settings else first
                trials = enumerate(draws(search, self.trials, self.search_seed))
                group = []
                for candidate, (trial, drawn) in product(row.candidates, trials):
                    settings = {**shared, **row.entrant.settings, **candidate.settings, **drawn}
                    told = _told(settings, kind.defaults, search)
                    where = source.name, source.binary, fold, row.model, row.loss, candidate.variant
                    group.append(Cell(*where, told, (self.choose,), "tune", False, trial))
                yield source, group


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from its file; everything that is wrong with it is one `RecipeError`.

    Args:
        path: a YAML file.
    """
    return parse_recipe(parse_yaml(Path(path).read_bytes(), str(path)), Path(path).stem, str(path))


def parse_recipe(raw: Any, name: str = "recipe", title: str | None = None) -> Recipe:
    """Make a recipe from what its file holds; its quick and smoke forms are checked too.

    Args:
        raw: a mapping, as YAML reads it.
        name: name of the recipe; `load` takes it from the file.
        title: how errors name the recipe; None for `name`.
    """
    problems = RecipeProblems()
    found = parts(raw, problems)
    for form in FORMS:
        if isinstance(raw, Mapping) and raw.get(form) is not None:
            reduced = RecipeProblems()
            parts(merge(_plain(raw), raw[form]), reduced)
            problems.lines += [f"{form}: {line}" for line in reduced.lines if line not in problems.lines]
    problems.stop(title or name)
    recipe = Recipe(name=name, raw=raw, **found)
    with problems.at("recipe"):
        if (cells := recipe.cell_count) > CELLS:
            bad_value("recipe", f"have at most {CELLS:,} cells (several recipes may share a folder)", f"{cells:,}")
    problems.stop(title or name)
    return recipe


def _plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in FORMS}


def _told(settings: dict[str, Any], defaults: Mapping[str, Any], searched: Iterable[str]) -> dict[str, Any]:
    """The settings that differ from their default, and those that a reader of a result looks for."""
    usual = {
        name: value for name, value in defaults.items() if name not in {"model", "loss", "metric", "seed", *searched}
    }
    return {name: value for name, value in settings.items() if name not in usual or value != usual[name]}
