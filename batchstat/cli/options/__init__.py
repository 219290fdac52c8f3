"""Options of the command line: their types and their help texts."""
