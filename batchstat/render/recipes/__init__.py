"""Training scripts for a setting, as text."""

from batchstat.render.recipes.writing import FRAMEWORKS, holds_text, recipe, refusal

__all__ = ["FRAMEWORKS", "holds_text", "recipe", "refusal"]
