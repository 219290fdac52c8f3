"""An epoch's samples after `max_length`: which ones, how much of each, and what was lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import total
from batchstat.lengths.max_length import Lost
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import one_of
from batchstat.planning.plan import concatenate_starts
from batchstat.planning.rules import OVERFLOWS
from batchstat.planning.samples import Samples, check_room
from batchstat.planning.settings import ResolvedSettings


@dataclass(frozen=True, eq=False)
class InMemoryEpoch:
    """The samples of an epoch as arrays, in order. No length is above `max_length`."""

    samples: Ints  # (n,) record number of each sample; a split one appears once per part
    lengths: Ints  # (n,) tokens of each sample or part
    starts: Ints | None = None  # (n,) first token of each part; None if nothing is split
    lost: Lost = field(default_factory=Lost)  # what `overflow` loses

    @property
    def count(self) -> int:
        """Number of samples or parts."""
        return len(self.lengths)

    @cached_property
    def tokens(self) -> int:
        """Total tokens."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def first_parts(self) -> Ints:
        """(n_begun,) record number of each sample that begins here."""
        return self.samples if self.starts is None else self.samples[self.starts == 0]

    @property
    def sample_count(self) -> int:
        """Number of samples that begin here."""
        return len(self.first_parts)

    @property
    def is_split(self) -> bool:
        """Whether there are parts."""
        return self.starts is not None

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return LengthStats.of(self.lengths)

    def pieces(self, size: int) -> Iterator["InMemoryEpoch"]:
        """Yield the epoch in pieces of `size` samples or parts, as views of the same arrays."""
        for first in range(0, len(self.lengths), size):
            yield self.take(slice(first, first + size))

    @property
    def whole(self) -> "InMemoryEpoch":
        """Itself: a streamed epoch makes one of these here."""
        return self

    def take(self, positions: Ints | slice) -> "InMemoryEpoch":
        """Return the samples at these positions, in this order; nothing counts as lost."""
        starts = None if self.starts is None else self.starts[positions]
        return InMemoryEpoch(self.samples[positions], self.lengths[positions], starts)


def concatenate_epochs(parts: Sequence[InMemoryEpoch]) -> InMemoryEpoch:
    """Concatenate parts of an epoch; nothing counts as lost."""
    if len(parts) == 1:
        return parts[0]
    return InMemoryEpoch(
        np.concatenate([part.samples for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        concatenate_starts([(part.samples, part.starts) for part in parts]),
    )


def draw_epoch(samples: Samples, drawn: Ints, settings: ResolvedSettings) -> InMemoryEpoch:
    """Return the epoch of samples at (n_drawn,) positions, in order, limited to `max_length`."""
    # Where no record is skipped, a position is its record number.
    records = drawn if samples.is_contiguous else samples.records[drawn]
    # Lengths mapped from a file may have 32 bits, which widths and squares can overflow.
    lengths = samples.lengths.take(drawn).astype(np.int64, copy=False)
    return make_epoch(records, lengths, settings.max_length, settings.overflow)


def check_parts(parts: int, max_length: int) -> None:
    """Raise InputError if there are more parts of split samples than fit into memory."""
    check_room(f"overflow=split with max_length={max_length} makes", parts, "raise max_length")


def check_any(count: int, max_length: int) -> None:
    """Raise InputError if an epoch has no samples."""
    if count == 0:
        raise InputError(
            f"overflow=drop leaves no sample: all are longer than max_length={max_length}"
        )


def make_epoch(samples: Ints, lengths: Ints, max_length: int, overflow: str) -> InMemoryEpoch:
    """Return the epoch of `samples` (n,) with `lengths` (n,) tokens, each limited to `max_length`.
    A longer sample is truncated at its end (`truncate`), dropped (`drop`), or split into
    consecutive parts of `max_length` tokens, the last one with what remains (`split`): with a
    maximum of 4, a sample of 10 tokens has 4, is gone, or becomes parts of 4, 4 and 2. Raises
    OptionError: an unknown `overflow`; InputError: `split` makes more parts than fit into memory.
    """
    one_of("overflow", overflow, OVERFLOWS)
    # Nothing is longer than `max_length`; without samples, the maximum counts as 0.
    if lengths.max(initial=0) <= max_length:
        return InMemoryEpoch(samples, lengths)
    longer = lengths > max_length
    excess = lengths[longer] - max_length
    lost = Lost.of(len(excess), int(excess.sum()), max_length, overflow)
    if overflow == "truncate":
        return InMemoryEpoch(samples, np.minimum(lengths, max_length), lost=lost)
    if overflow == "drop":
        return InMemoryEpoch(samples[~longer], lengths[~longer], lost=lost)
    # `split`, which loses nothing. Rounded up; an empty sample is still one part.
    n_parts = np.maximum(-(-lengths // max_length), 1)
    check_parts(total(n_parts), max_length)
    # (n_all_parts,) position of the sample of each part.
    sample = np.repeat(np.arange(len(lengths)), n_parts)
    # Where the parts of each sample begin; its part k begins at its token k × max_length.
    first_part = np.cumsum(n_parts) - n_parts
    starts = (np.arange(len(sample)) - first_part[sample]) * max_length
    return InMemoryEpoch(samples[sample], np.minimum(lengths[sample] - starts, max_length), starts)
