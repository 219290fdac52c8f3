"""Options of the command line: how each is written, and what `--help` says of it."""
