"""Versions that must be identical wherever splits of one corpus are counted."""

import platform
from functools import cache

from batchstat.storage.installed import installed_versions

_LIBRARIES = ("batchstat", "fastokens", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Return the versions here of Python and of the libraries that counts depend on."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **installed_versions(_LIBRARIES)}


def different_versions(others: dict[str, str]) -> str:
    """Return versions elsewhere that differ from those here, as text; empty if none does."""
    here = versions()
    names = [name for name in here if others.get(name) != here[name]]
    return ", ".join(
        f"{name} {others.get(name, 'not installed')} (here {here[name]})" for name in names
    )
