"""From order and lengths to a `BatchPlan`: one strategy per file, pure NumPy."""
