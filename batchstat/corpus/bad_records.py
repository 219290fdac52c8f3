"""Bad records: the first ends the reading, or all are skipped and counted by reason."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter

from batchstat.errors import InputError

EXAMPLES = 5  # number of messages stored for the report

MOST_TEXT_BYTES = 16 << 20
"""Limit for the text of a record, in UTF-8. Tokenizers take up to 190 bytes of memory per byte of a
text without spaces: 3 GB for the longest one."""

MOST_RECORD_BYTES = 128 << 20
"""Limit for a record in the file: a line, a CSV record, an element of a JSON array. JSON escapes
make a text up to 6 times as long, so every text within its limit fits."""


@dataclass(frozen=True)
class Location:
    """Position of a record."""

    path: str
    number: int  # in its split, the record number from 0, or the line it starts on from 1
    unit: str = "record"
    before: Callable[[], int] = int

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.before() + self.number}"


@dataclass(frozen=True)
class BadRecord:
    """What is wrong with a record: a word such as `malformed`, and a message."""

    reason: str
    message: str


BLANK = BadRecord("blank", "")
"""An empty record, such as an empty line: skipped without an error, and counted apart."""


def as_error(location: Location, message: str) -> InputError:
    """Return the error that ends the reading at a bad record, unless bad records are skipped."""
    return InputError(f"{location}: {message}", "pass --on-error skip to skip such records")


@dataclass
class BadRecords:
    """Bad records of one source."""

    skip: bool
    # By reason: the number of the first such record, and how many there are.
    _by_reason: dict[str, tuple[int, int]] = field(default_factory=dict)
    _examples: list[tuple[int, str]] = field(default_factory=list)  # number of a record, message
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def counts(self) -> dict[str, int]:
        """Number of bad records by reason; the reason that occurred first comes first."""
        by_first_record = sorted(self._by_reason.items(), key=itemgetter(1))
        return {reason: count for reason, (_, count) in by_first_record}

    @property
    def examples(self) -> list[str]:
        """Messages of the first few."""
        return [message for _, message in self._examples]

    def raise_or_count(self, location: Location, bad: BadRecord) -> None:
        """Count a bad record, in any order alike. Raises InputError unless they are skipped."""
        message, number = f"{location}: {bad.message}", location.number
        if not self.skip:
            raise as_error(location, bad.message)
        with self._lock:  # several threads count blocks, and report bad records, at once
            first, count = self._by_reason.get(bad.reason, (number, 0))
            self._by_reason[bad.reason] = min(first, number), count + 1
            # The examples are those of the lowest numbers, in ascending order; the last is highest.
            if len(self._examples) < EXAMPLES or number < self._examples[-1][0]:
                self._examples = sorted([*self._examples, (number, message)])[:EXAMPLES]


def too_long(what: str, size: int) -> str:
    """Return the message for a record, or a text, that is too long."""
    return (
        f"{what} of {size:,} bytes is too long: split it; the limit is {MOST_TEXT_BYTES >> 20} MiB "
        f"for the text and {MOST_RECORD_BYTES >> 20} MiB for the record in the file"
    )
