"""Versions that must be identical wherever splits of one corpus are counted."""

import platform
from functools import cache

from batchstat.storage.installed import installed_versions

_LIBRARIES = ("batchstat", "fastokens", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that counts depend on, as this process has
    them.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **installed_versions(_LIBRARIES)}


def different_versions(others: dict[str, str]) -> str:
    """Return the text that names versions of another process or run that differ from those here;
    empty if none does.
    """
    here = versions()
    names = [name for name in here if others.get(name) != here[name]]
    return ", ".join(
        f"{name} {others.get(name, 'not installed')} (here {here[name]})" for name in names
    )
