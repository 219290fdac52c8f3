"""Lengths and labels of samples: statistics, exact sums, array helpers."""
