"""Paths and addresses, files written whole or not at all, and files read again strictly."""
