"""Recipes: YAML files that describe an experiment. They are read and checked before anything runs.

- `reader` reads the parts of a recipe: `models` (rankers, losses and search spaces), `data_sets`.
- `recipe` lists the cells of a recipe; `shipped` finds the recipes of the package, which are in `rankgrad/recipes`.
- `errors` collects all errors, each with its path in the file; `yaml_file` reads YAML safely.
"""
