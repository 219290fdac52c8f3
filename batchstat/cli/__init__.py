"""The command line: argv and TOML to one library call, files and an exit code."""
