"""An epoch's samples after `max_length`: which ones, how much of each, and what was lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import total
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import one_of
from batchstat.planning.settings import OVERFLOWS
from batchstat.planning.size_limits import check_room


@dataclass(frozen=True, eq=False)
class Epoch:
    """The samples of an epoch, in order. No length is above `max_length`.

    Attributes:
        samples: (n,) record number of each sample; a split one appears once per part.
        lengths: (n,) tokens of each sample or part.
        starts: (n,) first token of each part; None if nothing is split.
        truncated_samples: number of truncated samples.
        truncated_tokens: tokens lost by truncation.
        dropped_samples: number of samples dropped for their length.
        dropped_tokens: tokens of the dropped samples.
    """

    samples: Ints
    lengths: Ints
    starts: Ints | None = None
    truncated_samples: int = 0
    truncated_tokens: int = 0
    dropped_samples: int = 0
    dropped_tokens: int = 0

    @property
    def count(self) -> int:
        """Number of samples, or of parts where samples are split."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Total tokens of all samples."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def sample_count(self) -> int:
        """Number of samples that begin here; a split one counts with its first part."""
        parts = 0 if self.starts is None else int(np.count_nonzero(self.starts))
        return len(self.lengths) - parts

    @property
    def is_split(self) -> bool:
        """Whether any sample is split into parts."""
        return self.starts is not None

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return LengthStats.of(self.lengths)

    def pieces(self, size: int) -> Iterator["Epoch"]:
        """Yield the epoch in order, `size` samples at a time; the last piece may be shorter."""
        for first in range(0, len(self.lengths), size):
            yield self.take(slice(first, first + size))

    def take(self, positions: Ints | slice) -> "Epoch":
        """Return the samples at these positions, in this order; their truncated and dropped counts
        are 0.
        """
        starts = None if self.starts is None else self.starts[positions]
        return Epoch(self.samples[positions], self.lengths[positions], starts)


def concatenate_epochs(parts: Sequence[Epoch]) -> Epoch:
    """Concatenate parts of an epoch; the result's truncated and dropped counts are 0."""
    if len(parts) == 1:
        return parts[0]
    starts = None
    if any(part.starts is not None for part in parts):
        starts = np.concatenate(
            [np.zeros_like(p.samples) if p.starts is None else p.starts for p in parts]
        )
    return Epoch(
        np.concatenate([part.samples for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        starts,
    )


def check_parts(parts: int, max_length: int) -> None:
    """Raise InputError if there are more parts of split samples than fit into memory."""
    check_room(f"overflow=split with max_length={max_length} makes", parts, "raise max_length")


def some_of(visits: Epoch, max_length: int) -> Epoch:
    """Return the epoch. Raises InputError if it is empty."""
    if visits.count == 0:
        raise InputError(
            f"overflow=drop leaves no sample: all are longer than max_length={max_length}"
        )
    return visits


def make_epoch(samples: Ints, lengths: Ints, max_length: int, overflow: str) -> Epoch:
    """Return the epoch of `samples` (n,) with `lengths` (n,) tokens, each limited to `max_length`.

    A longer sample is truncated at its end (`truncate`), dropped (`drop`), or split into
    consecutive parts of `max_length` tokens, the last one with what remains (`split`).

    Raises:
        OptionError: an unknown `overflow`.
        InputError: `split` makes more parts than fit into memory.
    """
    one_of("overflow", overflow, OVERFLOWS)
    longer = lengths > max_length
    if not longer.any():
        return Epoch(samples, lengths)
    excess = lengths[longer] - max_length
    if overflow == "truncate":
        return Epoch(
            samples,
            np.minimum(lengths, max_length),
            truncated_samples=len(excess),
            truncated_tokens=int(excess.sum()),
        )
    if overflow == "drop":
        return Epoch(
            samples[~longer],
            lengths[~longer],
            dropped_samples=len(excess),
            dropped_tokens=int(lengths[longer].sum()),
        )
    parts = np.maximum(-(-lengths // max_length), 1)
    check_parts(total(parts), max_length)
    sample = np.repeat(np.arange(len(lengths)), parts)
    first_part = np.cumsum(parts) - parts
    starts = (np.arange(len(sample)) - first_part[sample]) * max_length
    return Epoch(samples[sample], np.minimum(lengths[sample] - starts, max_length), starts)
