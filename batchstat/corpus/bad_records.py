"""Records that cannot be read: the first ends the reading, or all are counted by reason."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from batchstat.errors import InputError

EXAMPLES = 5
"""How many messages are kept for the report."""

MOST_TEXT_BYTES = 16 << 20
"""Of the text of a record, in UTF-8. Tokenizers take up to 190 bytes of memory for each byte of a
text without spaces: so it is 3 GB for the longest one."""

MOST_RECORD_BYTES = 128 << 20
"""Of a record as it is written: a line, a CSV record, an element of a JSON array. JSON escapes make
a text up to 6 times as long, so every text that is not too long fits."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Place:
    """Where a record stands.

    Attributes:
        path: its file, as messages name it.
        number: of its record from 0, or of the line it starts on from 1, in the part that is read.
        unit: which of the two.
        before: how many of them stand before that part, asked only where it matters.
    """

    path: str
    number: int
    unit: str = "record"
    before: Callable[[], int] = int

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.before() + self.number}"


@dataclass(frozen=True)
class Fault:
    """What is wrong with a record: a word such as `malformed`, and the message."""

    number: int
    reason: str
    message: str


@dataclass
class Faults:
    """What was wrong with records.

    Attributes:
        skip: whether reading goes on.
        counts: records by reason.
        examples: the first few messages.
    """

    skip: bool
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    _noted: list[Fault] = field(default_factory=list)

    def add(self, reason: str, place: Place, message: str) -> None:
        """Notes a record that is read in vain."""
        self._noted.append(fault(reason, place, message))

    def take(self) -> list[Fault]:
        """What was noted since the last time."""
        noted, self._noted = self._noted, []
        return noted

    @staticmethod
    def refusal(message: str) -> InputError:
        """The error that ends the reading at a faulty record."""
        return InputError(f"{message}; --on-error skip leaves out such records")

    def settle(self, found: Iterable[Fault]) -> None:
        """Counts the records of a block that are read in vain, in their order in the file.

        Parsing, checking and counting each find theirs in a block of records at a time; only then
        is it known which comes first.

        Raises:
            InputError: the first one's message, where reading does not go on.
        """
        for each in sorted(found, key=lambda fault: fault.number):
            if not self.skip:
                raise self.refusal(each.message)
            self.counts[each.reason] = self.counts.get(each.reason, 0) + 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(each.message)


def too_long(what: str, size: int) -> str:
    """The message for a record, or its text, that is too long."""
    return (
        f"{what} of {size:,} bytes: split it, a record can have {MOST_TEXT_BYTES >> 20} MiB of "
        f"text, and {MOST_RECORD_BYTES >> 20} MiB as it is written"
    )


def fault(reason: str, place: Place, message: str) -> Fault:
    """A fault of the record at `place`."""
    return Fault(place.number, reason, f"{place}: {message}")


def grouped(
    items: Iterable[Item], size: Callable[[Item], int], enough: int
) -> Iterator[list[Item]]:
    """Items in lists of about `enough` in size; those before an error come before the error."""
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
