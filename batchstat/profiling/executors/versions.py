"""Versions that must be the same wherever parts of one corpus are counted."""

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

_LIBRARIES = ("batchstat", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Of Python and of the libraries on which a count depends, in this process."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version_of(name)
    return found


def different_versions(theirs: dict[str, str]) -> str:
    """How versions differ from those here; empty where they do not."""
    here = versions()
    names = [name for name in here if theirs.get(name) != here[name]]
    return ", ".join(
        f"{name} {theirs.get(name, 'not at all')} (here {here[name]})" for name in names
    )
