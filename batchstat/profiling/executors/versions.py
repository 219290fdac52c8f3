"""Versions that must be identical wherever splits of one corpus are counted."""

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

_LIBRARIES = ("batchstat", "fastokens", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that counts depend on, as this process has
    them.
    """
    installed = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            installed[name] = version_of(name)
    return installed


def different_versions(others: dict[str, str]) -> str:
    """Return the text that names versions of another process or run that differ from those here;
    empty if none does.
    """
    here = versions()
    names = [name for name in here if others.get(name) != here[name]]
    return ", ".join(
        f"{name} {others.get(name, 'not installed')} (here {here[name]})" for name in names
    )
