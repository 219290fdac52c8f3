"""The samples of an epoch, in memory or streamed, their order, and what each rank plans of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, in_pieces
from batchstat.lengths.max_length import Lost
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import MOST_SEED, one_of
from batchstat.planning.distribution import contiguous, round_robin
from batchstat.planning.epoch import (
    InMemoryEpoch,
    check_any,
    check_parts,
    concatenate_epochs,
    draw_epoch,
)
from batchstat.planning.rng import order_rng
from batchstat.planning.rules import FROM_ONE_PLAN, ORDERS, SHUFFLED
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings

BLOCK_SIZE = 1_000  # samples per block: the default of Hugging Face's streaming shuffle
_AT_ONCE = 1 << 18  # positions per piece of a streamed order
STREAMED = ("file", "blocks")  # orders that can be produced piece by piece


@dataclass(frozen=True, eq=False)
class StreamedEpoch:
    """An epoch of every sample of a corpus once, in an order that comes in pieces."""

    corpus: Samples  # the samples
    settings: ResolvedSettings  # their order is one of `STREAMED`

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
        """Statistics of the lengths after `overflow`, from the histogram of the corpus."""
        return self.corpus.stats.cut(self.settings.max_length, self.settings.overflow)

    @cached_property
    def lost(self) -> Lost:
        """What `overflow` loses, from the histogram of the corpus."""
        limit = self.settings.max_length
        return Lost.of(*self.corpus.stats.above(limit), limit, self.settings.overflow)

    def pieces(self, size: int) -> Iterator[InMemoryEpoch]:
        """Yield the epoch in pieces of `size` samples or parts, made as they are needed."""
        return in_pieces(
            self._chunks(), size, lambda part: part.count, concatenate_epochs, InMemoryEpoch.take
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


Epoch = InMemoryEpoch | StreamedEpoch  # the samples of an epoch, in order, held or streamed


@dataclass(frozen=True, eq=False)
class EpochShares:
    """An epoch, and the shares of it that are planned separately."""

    samples: Samples  # the corpus
    epoch: Epoch  # its samples, in order; if each rank draws its own, those that any rank draws
    shares: tuple[Epoch, ...]  # what each rank plans; only `epoch` where batches are distributed

    @property
    def is_distributed(self) -> bool:
        """Whether one plan's batches are distributed, instead of each rank planning a share."""
        return self.shares[0] is self.epoch


def make_shares(samples: Samples, settings: ResolvedSettings) -> EpochShares:
    """Return the epoch of the samples of a corpus, with the shares of it that are planned
    separately: one per rank, or one in all where batches are distributed. Raises InputError:
    classes cannot be drawn as requested, or `overflow=drop` leaves no sample.
    """
    if settings.distribute == "independent":
        return _draw_on_each_rank(samples, settings)
    is_one_plan = settings.distribute in FROM_ONE_PLAN
    # Every sample comes once, in an order that can be produced in pieces: nothing is held whole.
    if is_one_plan and settings.draws_all and settings.order in STREAMED:
        streamed = StreamedEpoch(samples, settings)
        check_any(streamed.count, settings.max_length)
        return EpochShares(samples, streamed, (streamed,))
    # One plan is of the epoch in its order; shares are cut from the corpus and put in order then.
    order = settings.order if is_one_plan else "file"
    drawn = _put_in_order(draw_samples(samples, settings), order, settings)
    epoch = _epoch_of(samples, drawn, settings)
    if is_one_plan:
        return EpochShares(samples, epoch, (epoch,))
    if settings.distribute == "samples":
        # As torch's DistributedSampler: rank 0 of 2 has the samples 0, 2, 4, … of torch's order.
        order = "torch" if settings.order == "shuffled" else settings.order
        sequence = make_order(epoch.count, order, seed=settings.seed, epoch=settings.epoch)
        turns = round_robin(epoch.count, settings.world_size, settings.remainder)
        # A column for each rank; −1 where an incomplete last turn leaves it without a sample.
        shares = [sequence[column[column >= 0]] for column in turns.T]
    else:  # consecutive chunks, each shuffled by itself
        shares = [
            part[make_order(len(part), settings.order, seed=settings.seed, epoch=settings.epoch)]
            for part in contiguous(epoch.count, settings.world_size, settings.remainder)
        ]
    return EpochShares(samples, epoch, tuple(epoch.take(share) for share in shares))


def draw_samples(samples: Samples, settings: ResolvedSettings) -> Ints:
    """Return (n_drawn,) indices of the samples of an epoch, as the sampler draws them. Raises
    InputError: no labels for a sampler that needs them, or classes it cannot draw.
    """
    if settings.draws_all:
        return np.arange(len(samples))
    if samples.classes is None:
        what = "keep_labels" if settings.keep_labels else f"sampler={settings.sampler}"
        raise InputError(
            f"{what} needs labels, but none were loaded", "pass --label-column (or labels=)"
        )
    sampler = settings.class_sampler
    return sampler.draw(samples.classes, seed=settings.seed, epoch=settings.epoch)


def _put_in_order(drawn: Ints, order: str, settings: ResolvedSettings) -> Ints:
    """Return (n_drawn,) the drawn samples in an `order`, or if shuffled in the sampler's own."""
    if settings.class_sampler.has_sequence:
        if settings.order in SHUFFLED:
            return drawn
        # Into the order of the corpus, in which other samplers return them.
        drawn = np.sort(drawn)
    positions = make_order(len(drawn), order, seed=settings.seed, epoch=settings.epoch)
    # Where all are drawn, `drawn` is 0 … n − 1: nothing needs to be looked up.
    return positions if settings.draws_all else drawn[positions]


def _epoch_of(samples: Samples, drawn: Ints, settings: ResolvedSettings) -> InMemoryEpoch:
    epoch = draw_epoch(samples, drawn, settings)
    check_any(epoch.count, settings.max_length)
    return epoch


def _draw_on_each_rank(samples: Samples, settings: ResolvedSettings) -> EpochShares:
    """Let each rank draw and shuffle an epoch with a seed of its own, and take every
    `world_size`-th sample of that: what training does by mistake where ranks are seeded with seed +
    rank. Ranks then share some samples, and others are on no rank.
    """
    shares = []
    # (n,) the most times that any one rank draws each sample: so often the epoch has it.
    times_drawn = np.zeros(len(samples), dtype=np.int64)
    for rank in range(settings.world_size):
        rank_settings = replace(settings, seed=(settings.seed + rank) % (MOST_SEED + 1))
        drawn = draw_samples(samples, rank_settings)
        np.maximum(times_drawn, np.bincount(drawn, minlength=len(samples)), out=times_drawn)
        drawn_in_order = _put_in_order(drawn, settings.order, rank_settings)
        rank_epoch = _epoch_of(samples, drawn_in_order, settings)
        turns = round_robin(rank_epoch.count, settings.world_size, settings.remainder)
        positions = turns[:, rank]
        shares.append(rank_epoch.take(positions[positions >= 0]))
    epoch = _epoch_of(samples, np.repeat(np.arange(len(samples)), times_drawn), settings)
    return EpochShares(samples, epoch, tuple(shares))


def make_order(n: int, order: str, *, seed: int, epoch: int) -> Ints:
    """Return (n,) the positions 0 … n − 1 in an order: `file` keeps that of the corpus, `shuffled`
    permutes all at random, `torch` as torch; `blocks` permutes blocks of `BLOCK_SIZE` consecutive
    samples, then inside each, as streaming loaders do. Raises OptionError: an unknown `order`.
    """
    if one_of("order", order, ORDERS) == "file":
        return np.arange(n)
    if order == "shuffled":
        return order_rng(seed, epoch).permutation(n)
    if order == "torch":
        # As accelerate and DistributedSampler seed torch's RandomSampler.
        return torch_permutation(n, seed + epoch)
    # An empty part first: without samples there is no piece, and NumPy cannot concatenate none.
    return np.concatenate([np.arange(0), *stream_order(n, order, seed=seed, epoch=epoch)])


def stream_order(n: int, order: str, *, seed: int, epoch: int) -> Iterator[Ints]:
    """Yield the positions of `make_order` in pieces, for `file` or `blocks`."""
    if order == "file":
        for start in range(0, n, _AT_ONCE):
            yield np.arange(start, min(start + _AT_ONCE, n))
        return
    rng = order_rng(seed, epoch)
    # The first position of each block, in random sequence; the last block may be short.
    block_starts = rng.permutation(-(-n // BLOCK_SIZE)) * BLOCK_SIZE
    for i in range(0, len(block_starts), _AT_ONCE // BLOCK_SIZE):
        blocks = block_starts[i : i + _AT_ONCE // BLOCK_SIZE].tolist()
        yield np.concatenate(
            [rng.permutation(np.arange(start, min(start + BLOCK_SIZE, n))) for start in blocks]
        )
