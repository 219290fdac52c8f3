"""Options of the command line, each as typer has it: how it is written, what `--help` says."""
