"""Limits and baselines compared with the numbers of a report, and remedies for exceeded ones."""
