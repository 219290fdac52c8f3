"""Records that cannot be read: the first ends the reading, or all are counted by reason."""

from dataclasses import dataclass, field

from batchstat.errors import InputError

EXAMPLES = 5
"""How many messages are kept for the report."""


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

    def add(self, reason: str, message: str) -> None:
        """Counts a record. Raises InputError with the message where reading does not go on."""
        if not self.skip:
            raise InputError(f"{message}; --on-error skip leaves out such records")
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(message)
