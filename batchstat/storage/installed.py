"""Versions of the libraries that this machine has."""

from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def installed_versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of those libraries that are installed, by their names."""
    versions: dict[str, str] = {}
    for library in libraries:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions
