"""Bad records: the first ends the reading, or all are skipped and counted by reason."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from batchstat.errors import InputError

EXAMPLES = 5
"""Number of messages stored for the report."""

MOST_TEXT_BYTES = 16 << 20
"""Limit for the text of a record, in UTF-8. Tokenizers take up to 190 bytes of memory per byte of a
text without spaces: 3 GB for the longest one."""

MOST_RECORD_BYTES = 128 << 20
"""Limit for a record in the file: a line, a CSV record, an element of a JSON array. JSON escapes
make a text up to 6 times as long, so every text within its limit fits."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Location:
    """Position of a record.

    Attributes:
        path: its file, as messages name it.
        number: in the part that is read, its record number from 0, or the line it starts on from 1.
        unit: which of the two.
        before: returns how many of them precede that part; called only where it matters.
    """

    path: str
    number: int
    unit: str = "record"
    before: Callable[[], int] = int

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.before() + self.number}"


@dataclass(frozen=True)
class BadRecord:
    """What is wrong with a record: a word such as `malformed`, and a message."""

    number: int
    reason: str
    message: str

    @classmethod
    def at(cls, location: Location, reason: str, message: str) -> "BadRecord":
        """Return the bad record at a location."""
        return cls(location.number, reason, f"{location}: {message}")


@dataclass
class BadRecords:
    """Bad records of one source.

    Attributes:
        skip: whether bad records are skipped.
    """

    skip: bool
    _noted: list[BadRecord] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _firsts: dict[str, int] = field(default_factory=dict)
    _examples: list[BadRecord] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    @property
    def counts(self) -> dict[str, int]:
        """Bad records by reason, in the order of the first of each."""
        return {
            reason: self._counts[reason]
            for reason in sorted(self._counts, key=self._firsts.__getitem__)
        }

    @property
    def examples(self) -> list[str]:
        """Messages of the first few."""
        return [bad.message for bad in self._examples]

    def add(self, reason: str, location: Location, message: str) -> None:
        """Note a bad record."""
        self._noted.append(BadRecord.at(location, reason, message))

    def drain(self) -> list[BadRecord]:
        """Return what was noted since the last call, in file order.

        Parsing and checking each find bad records in a block of records at a time; only afterwards
        is it known which one comes first.
        """
        noted, self._noted = self._noted, []
        return sorted(noted, key=_number)

    @staticmethod
    def refusal(message: str) -> InputError:
        """Return the error that ends the reading at a bad record."""
        return InputError(f"{message}; pass --on-error skip to skip such records")

    def raise_or_count(self, found: Iterable[BadRecord]) -> None:
        """Count bad records; what is counted does not depend on the order of the calls.

        Raises:
            InputError: the message of the first of them, unless bad records are skipped.
        """
        for bad in found:
            if not self.skip:
                raise self.refusal(bad.message)
            with self._one_at_a_time:  # blocks are counted by several threads
                self._counts[bad.reason] = self._counts.get(bad.reason, 0) + 1
                first = self._firsts.get(bad.reason, bad.number)
                self._firsts[bad.reason] = min(first, bad.number)
                if len(self._examples) < EXAMPLES or bad.number < self._examples[-1].number:
                    self._examples = sorted([*self._examples, bad], key=_number)[:EXAMPLES]


def _number(bad: BadRecord) -> int:
    return bad.number


def too_long(what: str, size: int) -> str:
    """Return the message for a record, or a text, that is too long."""
    return (
        f"{what} of {size:,} bytes is too long: split it; the limit is {MOST_TEXT_BYTES >> 20} MiB "
        f"for the text and {MOST_RECORD_BYTES >> 20} MiB for the record in the file"
    )


def grouped(
    items: Iterable[Item], size: Callable[[Item], int], enough: int
) -> Iterator[list[Item]]:
    """Yield items in lists of about `enough` in size; items before an error come before it."""
    taken: list[Item] = []
    room = enough
    try:
        for item in items:
            taken.append(item)
            room -= size(item)
            if room <= 0:
                yield taken
                taken, room = [], enough
    except InputError:
        if taken:
            yield taken
        raise
    if taken:
        yield taken
