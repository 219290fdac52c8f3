"""Plots of records as PNG images: file name to bytes."""
