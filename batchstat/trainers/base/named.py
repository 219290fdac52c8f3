"""What the name of a current setup is of: a strategy, a trainer's configuration or a recording."""

import os

from batchstat.planning.strategies.spec import names_strategy

SUFFIXES = (".json", ".yaml", ".yml")
PICKLE = ".bin"
"""The ending of training_args.bin, which is not read: a message says so."""


def names_configuration(current: str) -> bool:
    """Return whether it is a trainer's configuration, by its ending."""
    return current.endswith((*SUFFIXES, PICKLE))


def names_recording(current: str) -> bool:
    """Return whether it is the folder of a recording and no strategy; a separator in it shows that
    where the folder is missing.
    """
    # Path.is_dir raises OSError for a name that is too long.
    is_folder = os.path.isdir(current)  # noqa: PTH112
    return not names_strategy(current) and ("/" in current.partition(":")[0] or is_folder)


def is_current_file(current: str) -> bool:
    """Return whether it is a file or a folder, and no strategy."""
    return names_configuration(current) or names_recording(current)
