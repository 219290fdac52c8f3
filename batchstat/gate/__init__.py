"""Limits and bases compared with the numbers of a report, and remedies for exceeded ones."""
