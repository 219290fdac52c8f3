"""What an epoch visits, and what of it each rank plans."""

from dataclasses import dataclass, replace

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.parameters import MOST
from batchstat.planning.distribution import deal_in_turn, deal_parts
from batchstat.planning.epoch import Epoch, make_epoch, some_of
from batchstat.planning.order import make_order
from batchstat.planning.samplers.per_class import Natural
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Basis
from batchstat.planning.streamed_epoch import STREAMED, StreamedEpoch


@dataclass(frozen=True, eq=False)
class Work:
    """An epoch, and what of it is planned together.

    Attributes:
        samples: the corpus.
        visits: all of it that is visited, in sequence; where ranks draw for themselves, what any
            of them draws.
        shares: what each rank plans by itself; `visits`, once, where batches are dealt.
    """

    samples: Samples
    visits: Epoch
    shares: tuple[Epoch, ...]

    @property
    def is_dealt(self) -> bool:
        """Whether one plan is dealt, and not a share planned by each rank."""
        return self.shares[0] is self.visits


def make_work(samples: Samples, basis: Basis) -> Work:
    """The epoch of the samples of a corpus.

    Raises:
        InputError: classes that cannot be drawn as asked, or `overflow=drop` leaves no sample.
    """
    if basis.deal == "unsynced":
        return _unsynced(samples, basis)
    if _is_streamed(basis):
        streamed = some_of(StreamedEpoch(samples, basis), basis.max_length)
        return Work(samples, streamed, (streamed,))
    order = "file" if basis.deal in ("samples", "chunks") else basis.order
    visits = _visits(samples, _sequence(drawn(samples, basis), order, basis), basis)
    n = len(visits.lengths)
    if basis.deal == "samples":
        shares = _dealt_samples(n, basis)
    elif basis.deal == "chunks":
        shares = [
            part[make_order(len(part), basis.order, seed=basis.seed, epoch=basis.epoch)]
            for part in deal_parts(n, basis.world_size, basis.tail)
        ]
    else:
        return Work(samples, visits, (visits,))
    return Work(samples, visits, tuple(visits.take(share) for share in shares))


def _is_streamed(basis: Basis) -> bool:
    """Whether every sample is visited once, in an order that comes in pieces."""
    natural = isinstance(basis.sampler, Natural) and not basis.keep_labels
    return natural and basis.order in STREAMED and basis.deal in ("batches", "balanced")


def drawn(samples: Samples, basis: Basis) -> Ints:
    """(n_drawn,) which samples an epoch visits, as the sampler draws them.

    Raises:
        InputError: no labels for a sampler that goes by them, or classes it cannot draw.
    """
    sampler = basis.sampler
    if isinstance(sampler, Natural) and not basis.keep_labels:
        return np.arange(len(samples))
    if samples.classes is None:
        what = "keep_labels" if basis.keep_labels else f"balance={basis.balance}"
        raise InputError(
            f"{what} goes by labels, and none were read: pass --label-column, or labels"
        )
    return sampler.draw(samples.classes, seed=basis.seed, epoch=basis.epoch)


def _sequence(chosen: Ints, order: str, basis: Basis) -> Ints:
    """What is drawn, in the sequence of an order."""
    if basis.sampler.has_sequence:
        if basis.order == "shuffled":
            return chosen
        chosen = np.sort(chosen)
    return chosen[make_order(len(chosen), order, seed=basis.seed, epoch=basis.epoch)]


def _visits(samples: Samples, sequence: Ints, basis: Basis) -> Epoch:
    records = samples.records[sequence]
    # What is mapped from a file may have 32 bits, in which widths and squares do not fit.
    lengths = samples.lengths[sequence].astype(np.int64, copy=False)
    return some_of(make_epoch(records, lengths, basis.max_length, basis.overflow), basis.max_length)


def _dealt_samples(n: int, basis: Basis) -> list[Ints]:
    """Positions for each rank, as torch's DistributedSampler has them."""
    if basis.order == "shuffled":
        sequence = torch_permutation(n, basis.seed + basis.epoch)
    else:
        sequence = make_order(n, basis.order, seed=basis.seed, epoch=basis.epoch)
    turns = deal_in_turn(n, basis.world_size, basis.tail)
    return [sequence[column[column >= 0]] for column in turns.T]


def _unsynced(samples: Samples, basis: Basis) -> Work:
    """Each rank draws and shuffles by a seed of its own, and takes its turns of that."""
    shares = []
    most = np.zeros(len(samples), dtype=np.int64)
    for rank in range(basis.world_size):
        own = replace(basis, seed=(basis.seed + rank) % (MOST + 1))
        chosen = drawn(samples, own)
        np.maximum(most, np.bincount(chosen, minlength=len(samples)), out=most)
        visits = _visits(samples, _sequence(chosen, basis.order, own), basis)
        column = deal_in_turn(len(visits.lengths), basis.world_size, basis.tail)[:, rank]
        shares.append(visits.take(column[column >= 0]))
    by_any = np.repeat(np.arange(len(samples)), most)
    return Work(samples, _visits(samples, by_any, basis), tuple(shares))
