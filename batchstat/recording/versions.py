"""How old the environment of a trainer may be."""

from importlib.metadata import version

from batchstat.errors import InputError

LEAST = {"numpy": (2, 0), "pyarrow": (21,), "transformers": (4, 48)}
"""The least version of each library that batchstat needs beside a trainer, as in pyproject.toml: it
may be installed there without its dependencies, which pip has then not checked.
"""


def check_versions() -> None:
    """Raise InputError if the environment of a trainer is too old."""
    for name, least in LEAST.items():
        current = version(name)
        if tuple(int(part) for part in current.split(".")[: len(least)]) < least:
            needed = ", ".join(f"{key} {'.'.join(map(str, v))}" for key, v in LEAST.items())
            raise InputError(
                f"{name} {current} is too old: beside a trainer batchstat needs {needed}",
                "install it, or start the script by batchstat run from an environment that has it",
            )
