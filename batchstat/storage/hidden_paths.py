"""Paths of addresses that hold what is not shown. Imported only where upath is installed."""

from upath.extensions import ProxyUPath

from batchstat.storage.shown import as_shown


class HiddenPath(ProxyUPath):
    """A path at an address that is partly secret: its text, and its parent's, is what is shown."""

    def __str__(self) -> str:
        return as_shown(super().__str__())

    def __repr__(self) -> str:
        return repr(str(self))

    def as_posix(self) -> str:  # noqa: D102
        return str(self)
