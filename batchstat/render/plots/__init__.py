"""Plots of records: pictures by their names, drawn when a file of one is asked for."""
