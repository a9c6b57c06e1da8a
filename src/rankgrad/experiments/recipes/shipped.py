"""Find the recipes of the package by name. They are the YAML files in `rankgrad/recipes`."""

import os
from pathlib import Path

from rankgrad.errors import bad_value, mistyped

FOLDER = Path(__file__).parents[2] / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Return the path of each recipe of the package, by name.

    Example:
        >>> "smoothi-table1" in shipped_recipes()
        True
    """
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def find_recipe(recipe: str | os.PathLike[str]) -> Path:
    """Return the path of a recipe. An existing file has priority over a recipe of the package.

    Args:
        recipe: path of a YAML file, or name of a recipe of the package. The path `recipes/NAME.yaml` also
            finds the recipe `NAME` of the package: in version 0.1, the recipes were in the folder `recipes`.

    Example:
        >>> find_recipe("smoothi-table1").name
        'smoothi-table1.yaml'
        >>> find_recipe("leaderbord")
        Traceback (most recent call last):
        ValueError: recipe must be a YAML file or a known name; got 'leaderbord'; did you mean 'leaderboard'?
    """
    path, known = Path(recipe), shipped_recipes()
    if path.is_file():
        return path
    old = path.parent.name == "recipes" and path.suffix == ".yaml"
    name = path.stem if old else str(recipe)
    if name in known:
        return known[name]
    bad_value("recipe", "be a YAML file or a known name", *mistyped(str(recipe), known, "see `rankgrad list recipes`"))
