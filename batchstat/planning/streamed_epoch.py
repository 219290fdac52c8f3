"""An epoch that need not be held in memory: samples come in pieces, totals from the histogram."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from batchstat.lengths.arrays import Ints
from batchstat.lengths.stats import LengthStats
from batchstat.planning.epoch import Epoch, check_parts, concatenate_epochs, make_epoch
from batchstat.planning.order import stream_order
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings

STREAMED = ("file", "blocks")
"""Orders that can be produced piece by piece."""


class StreamedEpoch(Epoch):
    """Every sample of a corpus once, in an order that comes in pieces.

    It is an `Epoch`; accessing `samples`, `lengths` or `starts` materialises the whole epoch.
    """

    def __init__(self, corpus: Samples, basis: ResolvedSettings) -> None:
        """Stream the corpus by these settings, whose order is one of `STREAMED`."""
        longest, overflow = basis.max_length, basis.overflow
        samples, excess = corpus.stats.above(longest)
        cut, dropped = (samples, excess), (samples, excess + samples * longest)
        numbers = {
            "_corpus": corpus,
            "_basis": basis,
            "truncated_samples": cut[0] if overflow == "truncate" else 0,
            "truncated_tokens": cut[1] if overflow == "truncate" else 0,
            "dropped_samples": dropped[0] if overflow == "drop" else 0,
            "dropped_tokens": dropped[1] if overflow == "drop" else 0,
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)
        if self.is_split:
            check_parts(self.count, longest)

    _corpus: Samples
    _basis: ResolvedSettings

    @property
    def count(self) -> int:
        """Number of samples, or of parts where samples are split."""
        return self.stats.count

    @property
    def tokens(self) -> int:
        """Total tokens of all samples."""
        return self.stats.sum

    @property
    def sample_count(self) -> int:
        """Number of samples that begin here."""
        return len(self._corpus) - self.dropped_samples

    @property
    def is_split(self) -> bool:
        """Whether any sample is split into parts."""
        return self._basis.overflow == "split" and self._corpus.stats.max > self._basis.max_length

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return self._corpus.stats.cut(self._basis.max_length, self._basis.overflow)

    def pieces(self, size: int) -> Iterator[Epoch]:
        """Yield the epoch in order, `size` samples at a time; the last piece may be shorter."""
        held: list[Epoch] = []
        waiting = 0
        for chunk in self._chunks():
            held.append(chunk)
            waiting += len(chunk.lengths)
            if waiting < size:
                continue
            whole = concatenate_epochs(held)
            full = waiting - waiting % size
            for first in range(0, full, size):
                yield whole.take(slice(first, first + size))
            held, waiting = [whole.take(slice(full, None))], waiting - full
        if waiting:
            yield concatenate_epochs(held)

    def _chunks(self) -> Iterator[Epoch]:
        basis, corpus = self._basis, self._corpus
        order = stream_order(len(corpus), basis.order, seed=basis.seed, epoch=basis.epoch)
        for places in order:
            lengths = corpus.lengths[places].astype(np.int64)
            records = places if corpus.is_contiguous else corpus.records[places]
            yield make_epoch(records, lengths, basis.max_length, basis.overflow)

    @cached_property
    def _whole(self) -> Epoch:
        return concatenate_epochs(list(self._chunks()))

    @property
    def samples(self) -> Ints:
        """(n,) record number of each sample."""
        return self._whole.samples

    @property
    def lengths(self) -> Ints:
        """(n,) tokens of each sample or part."""
        return self._whole.lengths

    @property
    def starts(self) -> Ints | None:
        """(n,) first token of each part; None if nothing is split."""
        return self._whole.starts if self.is_split else None
