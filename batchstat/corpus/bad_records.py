"""Bad records: the first ends the reading, or all are skipped and counted by reason."""

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
class Place:
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
class Fault:
    """What is wrong with a record: a word such as `malformed`, and a message."""

    number: int
    reason: str
    message: str


@dataclass
class Faults:
    """Bad records found so far.

    Attributes:
        skip: whether bad records are skipped.
        counts: bad records by reason.
        examples: the first few messages.
    """

    skip: bool
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    _noted: list[Fault] = field(default_factory=list)

    def add(self, reason: str, place: Place, message: str) -> None:
        """Note a bad record."""
        self._noted.append(fault(reason, place, message))

    def take(self) -> list[Fault]:
        """Return what was noted since the last call."""
        noted, self._noted = self._noted, []
        return noted

    @staticmethod
    def refusal(message: str) -> InputError:
        """Return the error that ends the reading at a bad record."""
        return InputError(f"{message}; pass --on-error skip to skip such records")

    def settle(self, found: Iterable[Fault]) -> None:
        """Count the bad records of a block, in file order.

        Parsing, checking and counting each find bad records in a block of records at a time; only
        afterwards is it known which one comes first.

        Raises:
            InputError: the message of the first, unless bad records are skipped.
        """
        for each in sorted(found, key=lambda fault: fault.number):
            if not self.skip:
                raise self.refusal(each.message)
            self.counts[each.reason] = self.counts.get(each.reason, 0) + 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(each.message)


def too_long(what: str, size: int) -> str:
    """Return the message for a record, or a text, that is too long."""
    return (
        f"{what} of {size:,} bytes is too long: split it; the limit is {MOST_TEXT_BYTES >> 20} MiB "
        f"for the text and {MOST_RECORD_BYTES >> 20} MiB for the record in the file"
    )


def fault(reason: str, place: Place, message: str) -> Fault:
    """Return a fault of the record at `place`."""
    return Fault(place.number, reason, f"{place}: {message}")


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
