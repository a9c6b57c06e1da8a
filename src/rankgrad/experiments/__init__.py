"""Experiments: recipes that compare losses and rankers alike, cell by cell, with the papers' numbers beside ours.

- A recipe: `reading`, `entrants`, `space`, `sets`, `problems` read it; `recipe` knows the `cell`s it comes to.
- Running it: `work` hands cells to a `pool` or `ray_pool`, `run` trains one (`trained`, `facts`), `results` keeps them.
- Judging it: `statistics`, `tables` with `footnotes` and the `printed` numbers; `rendering` and `latex` write tables.
- Showing it: `report` makes a `study` (`series`, `explorer`, `charts`) into a `page`.
- Besides: `tune` searches settings for one's own data (`importance`), `compare` sets two rankers side by side.
"""

from rankgrad.experiments.recipes.errors import RecipeError
from rankgrad.experiments.recipes.recipe import Recipe, load, parse
from rankgrad.experiments.runs.cell import Cell

__all__ = ["Cell", "Recipe", "RecipeError", "load", "parse"]
