"""How old the environment of a trainer may be."""

from importlib.metadata import version

from batchstat.errors import InputError

LEAST = {"numpy": (2, 0), "pyarrow": (21,), "transformers": (4, 48)}
"""What batchstat needs beside a trainer, as pyproject.toml has it: nobody else checks that where it
was installed without its dependencies.
"""


def check_versions() -> None:
    """Raise InputError if the environment of a trainer is too old."""
    for name, least in LEAST.items():
        found = version(name)
        if tuple(int(part) for part in found.split(".")[: len(least)]) < least:
            needed = ", ".join(f"{key} {'.'.join(map(str, at))}" for key, at in LEAST.items())
            raise InputError(
                f"{name} {found} is too old: beside a trainer batchstat needs {needed}: install "
                "it, or start the script by batchstat run from an environment that has it"
            )
