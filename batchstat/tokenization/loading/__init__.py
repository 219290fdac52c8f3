"""Tokenizers by name, file or object."""
