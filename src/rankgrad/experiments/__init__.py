"""Experiments: recipes that compare losses and rankers under equal conditions, and tables of the results.

- `recipes` reads and checks YAML files that describe an experiment.
- `runs` trains the cells of a recipe in several processes, and reads and writes their results.
- `tables` and `statistics` compute means, spread and paired tests. Tables show published numbers next to ours.
- `compare_scores` compares two rankers by their scores of the same rows, with intervals and tests.
- `compare_runs` and `all_pairs` compare rankers that were trained with several seeds, also outside of recipes.
- `report` makes a page, tables and figures from results.
- `tuning` searches for good settings for a data set; `comparison` compares two rankers query by query.
"""

from typing import TYPE_CHECKING

from rankgrad import moved

__all__ = [
    "AllPairs",
    "Cell",
    "Comparison",
    "Difference",
    "Recipe",
    "RecipeError",
    "RunComparison",
    "RunValues",
    "all_pairs",
    "compare_runs",
    "compare_scores",
    "load_recipe",
    "parse_recipe",
]

# A new process of a pool imports this package. It loads PyTorch only if its tasks need PyTorch.
if TYPE_CHECKING:
    from rankgrad.experiments.comparison import Comparison, Difference, compare_scores
    from rankgrad.experiments.recipes.errors import RecipeError
    from rankgrad.experiments.recipes.recipe import Recipe, load_recipe, parse_recipe
    from rankgrad.experiments.runs.cell import Cell
    from rankgrad.experiments.seed_variance import AllPairs, RunComparison, RunValues, all_pairs, compare_runs
else:
    _MEMBERS = {
        "AllPairs": "seed_variance",
        "Cell": "runs.cell",
        "Comparison": "comparison",
        "Difference": "comparison",
        "Recipe": "recipes.recipe",
        "RecipeError": "recipes.errors",
        "RunComparison": "seed_variance",
        "RunValues": "seed_variance",
        "all_pairs": "seed_variance",
        "compare_runs": "seed_variance",
        "compare_scores": "comparison",
        "load_recipe": "recipes.recipe",
        "parse_recipe": "recipes.recipe",
    }
    # The first two names are those of version 0.1.0.
    __getattr__ = moved.renamed(__name__, {"load": "load_recipe", "parse": "parse_recipe"}, _MEMBERS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
