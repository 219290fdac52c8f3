"""Strategies that do what a framework's batching does."""
