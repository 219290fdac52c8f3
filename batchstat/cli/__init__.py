"""The command line, one file a command: parse, call, render, exit code."""
