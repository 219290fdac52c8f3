"""Records that cannot be read: the first ends the reading, or all are counted by reason."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from batchstat.errors import InputError

EXAMPLES = 5
"""How many messages are kept for the report."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Place:
    """Where a record stands.

    Attributes:
        path: its file, as messages name it.
        number: of its record from 0, or of the line it starts on from 1.
        unit: which of the two.
    """

    path: str
    number: int
    unit: str = "record"

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.number}"


@dataclass
class Faults:
    """What was wrong with records.

    Attributes:
        skip: whether reading goes on.
        counts: records by reason, a word such as `malformed`.
        examples: the first few messages.
    """

    skip: bool
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    _found: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, reason: str, place: Place, message: str) -> None:
        """Notes a record that is read in vain, until `settle`."""
        self._found.append((place.number, reason, f"{place}: {message}"))

    @staticmethod
    def refusal(message: str) -> InputError:
        """The error that ends the reading at a faulty record."""
        return InputError(f"{message}; --on-error skip leaves out such records")

    def settle(self) -> None:
        """Counts the records noted since the last time, in their order in the file.

        Parsing, checking and counting each find theirs in a block of records at a time; only then
        is it known which comes first.

        Raises:
            InputError: the first one's message, where reading does not go on.
        """
        found, self._found = sorted(self._found, key=itemgetter(0)), []
        for _, reason, message in found:
            if not self.skip:
                raise self.refusal(message)
            self.counts[reason] = self.counts.get(reason, 0) + 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(message)


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
