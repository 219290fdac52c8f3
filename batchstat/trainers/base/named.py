"""What a current setup names: a strategy, a trainer's configuration or a recording."""

import os

from batchstat.planning.strategies.registry import names_strategy

SUFFIXES = (".json", ".yaml", ".yml")
PICKLE = ".bin"  # the ending of training_args.bin, which is not read: a message says so


def names_configuration(current: str) -> bool:
    """Return whether a current setup names a trainer's configuration, by its ending."""
    return current.endswith((*SUFFIXES, PICKLE))


def names_recording(current: str) -> bool:
    """Return whether a current setup names the folder of a recording, and no strategy.
    `runs/monday` is a folder even where it is missing, so that the message is about a folder.
    """
    # Path.is_dir raises OSError for a name that is too long.
    is_folder = os.path.isdir(current)  # noqa: PTH112
    # What follows a ":" are parameters of a (misspelt) strategy, where a "/" shows nothing.
    return not names_strategy(current) and ("/" in current.partition(":")[0] or is_folder)


def is_current_file(current: str) -> bool:
    """Return whether a current setup is a file or a folder, and no strategy."""
    return names_configuration(current) or names_recording(current)
