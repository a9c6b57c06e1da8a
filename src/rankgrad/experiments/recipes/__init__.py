"""Recipes: YAML files that describe an experiment. A recipe is read and checked before any training starts.

- `reader` reads a recipe. It uses `models` for rankers, losses and search spaces, and `data_sets` for data sets.
- `recipe` lists the cells of a recipe; `shipped` finds the recipes of the package, which are in `rankgrad/recipes`.
- `errors` collects all errors of a recipe, each with its path in the file; `yaml_file` reads YAML safely.
"""
