"""Recipes: YAML files that describe an experiment, read and checked before anything runs.

- `reader` reads the parts of a recipe: `models` (rankers and losses), `data_sets`, `search_space`.
- `recipe` lists the cells of a recipe.
- `errors` collects everything that is wrong, each error with its place in the file; `yaml_file` reads YAML safely.
"""
