"""Whose code a part of an object is: the library's own, or the user's; and how old that is."""

from importlib.metadata import version
from typing import Any

from batchstat.errors import InputError

LIBRARIES = ("transformers", "trl", "accelerate", "datasets", "torch")

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
                "it, or pass the lengths of its data set to batchstat.compare elsewhere"
            )


def is_library(module: str) -> bool:
    """Return whether a module belongs to one of the libraries whose rules are known."""
    return module.partition(".")[0] in LIBRARIES


def overridden(target: Any, names: tuple[str, ...]) -> list[str]:
    """Return the methods of an object that its libraries do not define, by their names."""
    found = []
    for name in names:
        method = vars(target).get(name) or getattr(type(target), name, None)
        # A decorator of the library's may wrap it.
        module = getattr(method, "__module__", None) or ""
        if method is not None and not is_library(module):
            found.append(name)
    return found
