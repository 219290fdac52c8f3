"""The samples of an epoch, and the share of them that each rank plans."""

from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.parameters import MAX_INT
from batchstat.planning.distribution import contiguous, round_robin
from batchstat.planning.epoch import Epoch, make_epoch, some_of
from batchstat.planning.order import make_order
from batchstat.planning.samplers.per_class import NoSampling
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.streamed_epoch import STREAMED, StreamedEpoch


@dataclass(frozen=True, eq=False)
class EpochShares:
    """An epoch, and the shares of it that are planned separately.

    Attributes:
        samples: the corpus.
        visits: the epoch's samples, in order; if each rank draws its own, those that any rank
            draws.
        shares: what each rank plans by itself; only `visits` if batches are distributed.
    """

    samples: Samples
    visits: Epoch
    shares: tuple[Epoch, ...]

    @property
    def is_distributed(self) -> bool:
        """Whether one plan's batches are distributed, instead of each rank planning a share."""
        return self.shares[0] is self.visits


def make_shares(samples: Samples, basis: ResolvedSettings) -> EpochShares:
    """Return the epoch of the samples of a corpus.

    Raises:
        InputError: classes cannot be drawn as requested, or `overflow=drop` leaves no sample.
    """
    if basis.distribute == "independent":
        return _unsynced(samples, basis)
    if _is_streamed(basis):
        streamed = some_of(StreamedEpoch(samples, basis), basis.max_length)
        return EpochShares(samples, streamed, (streamed,))
    order = "file" if basis.distribute in ("samples", "chunks") else basis.order
    visits = _visits(samples, _sequence(drawn(samples, basis), order, basis), basis)
    n = len(visits.lengths)
    if basis.distribute == "samples":
        shares = _distributed_samples(n, basis)
    elif basis.distribute == "chunks":
        shares = [
            part[make_order(len(part), basis.order, seed=basis.seed, epoch=basis.epoch)]
            for part in contiguous(n, basis.world_size, basis.remainder)
        ]
    else:
        return EpochShares(samples, visits, (visits,))
    return EpochShares(samples, visits, tuple(visits.take(share) for share in shares))


def _is_streamed(basis: ResolvedSettings) -> bool:
    """Return whether every sample comes once, in an order that can be produced in pieces."""
    natural = isinstance(basis.class_sampler, NoSampling) and not basis.keep_labels
    return natural and basis.order in STREAMED and basis.distribute in ("batches", "balanced")


def drawn(samples: Samples, basis: ResolvedSettings) -> Ints:
    """Return (n_drawn,) the samples of an epoch, as the sampler draws them.

    Raises:
        InputError: no labels for a sampler that needs them, or classes it cannot draw.
    """
    sampler = basis.class_sampler
    if isinstance(sampler, NoSampling) and not basis.keep_labels:
        return np.arange(len(samples))
    if samples.classes is None:
        what = "keep_labels" if basis.keep_labels else f"sampler={basis.sampler}"
        raise InputError(
            f"{what} needs labels, but none were loaded; pass --label-column (or labels=)"
        )
    return sampler.draw(samples.classes, seed=basis.seed, epoch=basis.epoch)


def _sequence(chosen: Ints, order: str, basis: ResolvedSettings) -> Ints:
    """Return the drawn samples in the given order."""
    if basis.class_sampler.has_sequence:
        if basis.order == "shuffled":
            return chosen
        chosen = np.sort(chosen)
    return chosen[make_order(len(chosen), order, seed=basis.seed, epoch=basis.epoch)]


def _visits(samples: Samples, sequence: Ints, basis: ResolvedSettings) -> Epoch:
    records = samples.records[sequence]
    # Lengths mapped from a file may have 32 bits, which widths and squares can overflow.
    lengths = samples.lengths[sequence].astype(np.int64, copy=False)
    return some_of(make_epoch(records, lengths, basis.max_length, basis.overflow), basis.max_length)


def _distributed_samples(n: int, basis: ResolvedSettings) -> list[Ints]:
    """Return each rank's positions, as torch's DistributedSampler distributes them."""
    if basis.order == "shuffled":
        sequence = torch_permutation(n, basis.seed + basis.epoch)
    else:
        sequence = make_order(n, basis.order, seed=basis.seed, epoch=basis.epoch)
    turns = round_robin(n, basis.world_size, basis.remainder)
    return [sequence[column[column >= 0]] for column in turns.T]


def _unsynced(samples: Samples, basis: ResolvedSettings) -> EpochShares:
    """Let each rank draw and shuffle with a seed of its own, and take its turns of that."""
    shares = []
    most = np.zeros(len(samples), dtype=np.int64)
    for rank in range(basis.world_size):
        own = replace(basis, seed=(basis.seed + rank) % (MAX_INT + 1))
        chosen = drawn(samples, own)
        np.maximum(most, np.bincount(chosen, minlength=len(samples)), out=most)
        visits = _visits(samples, _sequence(chosen, basis.order, own), basis)
        column = round_robin(len(visits.lengths), basis.world_size, basis.remainder)[:, rank]
        shares.append(visits.take(column[column >= 0]))
    by_any = np.repeat(np.arange(len(samples)), most)
    return EpochShares(samples, _visits(samples, by_any, basis), tuple(shares))
