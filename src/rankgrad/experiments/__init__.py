"""Experiments: recipes that compare losses and rankers under equal conditions, with the papers' numbers next to ours.

- `recipes`: YAML files that describe an experiment, read and checked.
- `runs`: the cells of a recipe, trained in processes; their results.
- `tables` and `statistics`: means, spread, paired tests, published numbers.
- `report`: a page, tables and figures from results.
- `tuning` searches settings for your own data; `comparison` compares two rankers query by query.
"""

from rankgrad import moved
from rankgrad.experiments.recipes.errors import RecipeError
from rankgrad.experiments.recipes.recipe import Recipe, load_recipe, parse_recipe
from rankgrad.experiments.runs.cell import Cell

__all__ = ["Cell", "Recipe", "RecipeError", "load_recipe", "parse_recipe"]

# Names of version 0.1.0.
__getattr__ = moved.renamed(__name__, {"load": "load_recipe", "parse": "parse_recipe"})
