"""An epoch that need not be held in memory: samples come in pieces, totals from the histogram."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from batchstat.lengths.arrays import in_pieces
from batchstat.lengths.lost import Lost
from batchstat.lengths.stats import LengthStats
from batchstat.planning.epoch import (
    InMemoryEpoch,
    check_parts,
    concatenate_epochs,
    draw_epoch,
)
from batchstat.planning.order import stream_order
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings

STREAMED = ("file", "blocks")
"""Orders that can be produced piece by piece."""


@dataclass(frozen=True, eq=False)
class StreamedEpoch:
    """An epoch of every sample of a corpus once, in an order that comes in pieces.

    Attributes:
        corpus: the samples.
        settings: their order is one of `STREAMED`.
    """

    corpus: Samples
    settings: ResolvedSettings

    def __post_init__(self) -> None:
        if self.is_split:
            check_parts(self.count, self.settings.max_length)

    @property
    def count(self) -> int:
        """Number of samples or parts."""
        return self.stats.count

    @property
    def tokens(self) -> int:
        """Total tokens."""
        return self.stats.sum

    @property
    def sample_count(self) -> int:
        """Number of samples that begin here."""
        return len(self.corpus) - self.lost.dropped_samples

    @property
    def is_split(self) -> bool:
        """Whether there are parts."""
        longest = self.corpus.stats.max
        return self.settings.overflow == "split" and longest > self.settings.max_length

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return self.corpus.stats.cut(self.settings.max_length, self.settings.overflow)

    @cached_property
    def lost(self) -> Lost:
        """What `overflow` loses."""
        limit = self.settings.max_length
        return Lost.of(*self.corpus.stats.above(limit), limit, self.settings.overflow)

    def pieces(self, size: int) -> Iterator[InMemoryEpoch]:
        """Yield pieces as they are needed."""
        return in_pieces(
            self._chunks(),
            size,
            lambda part: part.count,
            concatenate_epochs,
            InMemoryEpoch.take,
        )

    @cached_property
    def whole(self) -> InMemoryEpoch:
        """The whole epoch, held in memory."""
        return concatenate_epochs(list(self._chunks()))

    def _chunks(self) -> Iterator[InMemoryEpoch]:
        settings, corpus = self.settings, self.corpus
        order = stream_order(len(corpus), settings.order, seed=settings.seed, epoch=settings.epoch)
        for places in order:
            yield draw_epoch(corpus, places, settings)


Epoch = InMemoryEpoch | StreamedEpoch
"""The samples of an epoch, in order, held or streamed."""
