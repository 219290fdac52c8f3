"""Counting faster than tokenizing, and the proof that it is the same."""
