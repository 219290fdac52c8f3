"""Strategies side by side on the same epoch."""
