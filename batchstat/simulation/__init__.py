"""Lengths to a `Comparison`: every strategy planned and measured on the same epoch."""
