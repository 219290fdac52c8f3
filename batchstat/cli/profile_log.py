"""The log of a run as a readable file in the results folder."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from batchstat.errors import message
from batchstat.profiling.run_log import LOG
from batchstat.storage.shown import is_remote

LOG_FILE = "profile.log"


@contextmanager
def profile_log(folder: Path | None) -> Iterator[None]:
    """Write what a run logs to a file in a folder, if there is one.

    A line is written as soon as its split is finished; for a URL, at the end of the run.
    """
    if folder is None:
        yield
        return
    at_end = StringIO()
    handler = logging.StreamHandler(at_end) if is_remote(folder) else _LogFile(folder)
    handler.setFormatter(_Line())
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(logging.NOTSET)
        LOG.removeHandler(handler)
        handler.close()
        if lines := at_end.getvalue():
            with suppress(Exception):  # whatever a remote file system raises
                path = folder / LOG_FILE
                before = path.read_text(encoding="utf-8") if path.exists() else ""
                path.write_text(before + lines, encoding="utf-8")


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds")
        return f"{time}  {message(record.getMessage())}"


class _LogFile(logging.FileHandler):
    """A file that is created with its folder at the first line; it is optional."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LOG_FILE, encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore that a line cannot be written: the results say what matters."""
