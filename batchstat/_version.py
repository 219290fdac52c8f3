"""The version, which everything may import and which imports nothing."""

__version__ = "0.1.0"
