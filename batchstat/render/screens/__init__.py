"""Screens: what each command prints to a terminal."""
