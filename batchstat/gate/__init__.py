"""Limits held against the numbers of a report: what is kept, by how much, and what would help."""
