"""An epoch's samples after `max_length`: what is visited, how much of each, and what that cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import total
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import one_of
from batchstat.planning.size_limits import check_room

OVERFLOWS = ("truncate", "drop", "split")


@dataclass(frozen=True, eq=False)
class Epoch:
    """What an epoch visits, in sequence. No length is above `max_length`.

    Attributes:
        samples: (n,) record number of each sample; a split one stands here once a part.
        lengths: (n,) tokens of each, or of the part.
        starts: (n,) first token of each part; None where nothing is split.
        truncated_samples: samples that lost their end, and the tokens lost with it.
        truncated_tokens: see above.
        dropped_samples: samples left out for their length, and their tokens.
        dropped_tokens: see above.
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
        """How many visits."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Of all of them."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def begun(self) -> int:
        """How many samples begin here: a split one counts with its first part."""
        parts = 0 if self.starts is None else int(np.count_nonzero(self.starts))
        return len(self.lengths) - parts

    @property
    def is_split(self) -> bool:
        """Whether a sample is visited in parts."""
        return self.starts is not None

    @cached_property
    def stats(self) -> LengthStats:
        """The visits by their lengths."""
        return LengthStats.of(self.lengths)

    def pieces(self, size: int) -> Iterator["Epoch"]:
        """The visits in turn, `size` at a time, of which the last may be fewer."""
        for first in range(0, len(self.lengths), size):
            yield self.take(slice(first, first + size))

    def take(self, positions: Ints | slice) -> "Epoch":
        """The visits at these positions, in that sequence; nothing is cut or left out for them."""
        starts = None if self.starts is None else self.starts[positions]
        return Epoch(self.samples[positions], self.lengths[positions], starts)


def together(parts: Sequence[Epoch]) -> Epoch:
    """The visits of all parts, one after the other; nothing is cut or left out for them."""
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
    """Raises InputError: more parts of split samples than an epoch can hold."""
    check_room(f"overflow=split with max_length={max_length} makes", parts, "raise max_length")


def some_of(visits: Epoch, max_length: int) -> Epoch:
    """The visits. Raises InputError: there is none."""
    if visits.count == 0:
        raise InputError(
            f"overflow=drop leaves no sample: all are longer than max_length={max_length}"
        )
    return visits


def make_epoch(samples: Ints, lengths: Ints, max_length: int, overflow: str) -> Epoch:
    """The epoch that visits `samples` (n,) of `lengths` (n,) tokens, each at most `max_length`.

    A longer sample is cut at its end (`truncate`), left out (`drop`), or becomes consecutive parts
    of `max_length` tokens and a last one of what remains (`split`).

    Raises:
        OptionError: `overflow` is none of these.
        InputError: `split` makes more parts than an epoch can hold.
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
