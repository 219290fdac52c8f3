"""A readable log file with the outcome of each part of a corpus."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from batchstat.errors import printable
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.profiling.scheduler import PartOutcome
from batchstat.render.text import counted
from batchstat.storage.addresses import is_remote
from batchstat.tokenization.tokenizer import Tokenizer

LOG = "profile.log"

OnOutcome = Callable[[PartOutcome], None]


@contextmanager
def part_log(
    folder: Path | None, parts: int, engine: CountingExecutor, tokenizer: Tokenizer | None
) -> Iterator[OnOutcome]:
    """Yield a callback that takes each `PartOutcome`; without a folder nothing is written.

    A line is written as soon as its part is finished; for a URL, at the end of the run.
    """
    log = _Log(folder)
    name = tokenizer.name if tokenizer else "already counted"
    log.begin = f"{counted(parts, 'part')}, counted by {engine.name}, {name}"
    try:
        yield log.note
    except BaseException as error:
        log.write(f"ended by {str(error) or type(error).__name__}")
        raise
    else:
        log.write(f"done: {log.sums()}")
    finally:
        log.close()


class _Log:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: TextIO | None = None
        self._lines: list[str] = []
        self.begin = ""
        self._done = self._failed = self._samples = self._tokens = 0
        self._noted = False

    def note(self, outcome: PartOutcome) -> None:
        done, part = outcome.done, outcome.part.shown
        self._noted = True
        if done is None:
            again = "" if outcome.is_last else "; will retry"
            self._failed += outcome.is_last
            self.write(f"FAILED  {part}, try {outcome.tries}: {outcome.failure}{again}")
            return
        self._done += 1
        self._samples += done.samples
        self._tokens += done.tokens
        how = "cached " if done.was_kept else "counted"
        self.write(
            f"{how} {part}: {counted(done.samples, 'sample')}, {counted(done.tokens, 'token')}, "
            f"{done.seconds:.1f} s, {done.worker}"
        )

    def sums(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"{counted(self._done, 'part')}, {counted(self._samples, 'sample')}, "
            f"{counted(self._tokens, 'token')}{failed}"
        )

    def write(self, text: str) -> None:
        if self._folder is None or not self._noted:
            return
        if self.begin:
            first, self.begin = self.begin, ""
            self._add(first)
        self._add(text)

    def _add(self, text: str) -> None:
        line = f"{datetime.now(UTC).isoformat(timespec='seconds')}  {printable(text)}\n"
        self._lines.append(line)
        if self._folder is None or is_remote(self._folder):
            return
        with suppress(OSError):  # a log is optional: the results say what matters
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / LOG).open("a", encoding="utf-8")
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        elif self._folder is not None and self._lines and is_remote(self._folder):
            with suppress(Exception):  # whatever a remote file system raises
                path = self._folder / LOG
                before = path.read_text(encoding="utf-8") if path.exists() else ""
                path.write_text(before + "".join(self._lines), encoding="utf-8")
