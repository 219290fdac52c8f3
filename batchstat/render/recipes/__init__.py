"""Training scripts for a setting, as text."""

from batchstat.render.recipes.writing import FRAMEWORKS, recipe

__all__ = ["FRAMEWORKS", "recipe"]
