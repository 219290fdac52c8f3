"""Versions that must be identical wherever splits of one corpus are counted."""

import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

_LIBRARIES = ("batchstat", "fastokens", "pyarrow", "tokenizers", "transformers")


@cache
def versions() -> dict[str, str]:
    """Return the versions, in this process, of Python and of libraries that counts depend on."""
    installed = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            installed[name] = version_of(name)
    return installed


def different_versions(theirs: dict[str, str]) -> str:
    """Return how versions differ from those here; empty if they do not."""
    here = versions()
    names = [name for name in here if theirs.get(name) != here[name]]
    return ", ".join(
        f"{name} {theirs.get(name, 'not installed')} (here {here[name]})" for name in names
    )
