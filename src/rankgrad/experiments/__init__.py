"""Experiments: recipes that compare losses and rankers alike, cell by cell, with the papers' numbers beside ours."""

from rankgrad.experiments.cell import Cell
from rankgrad.experiments.problems import RecipeError
from rankgrad.experiments.recipe import Recipe, load, parse

__all__ = ["Cell", "Recipe", "RecipeError", "load", "parse"]
