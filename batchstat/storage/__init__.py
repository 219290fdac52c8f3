"""Paths and addresses, files written completely or not at all, and files read back strictly."""
