"""The batches of all ranks, as the sampler of one of them draws them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any


class _Drawn:
    """A sampler whose numbers, or batches, were drawn already."""

    def __init__(self, sampler: Any, drawn: Iterator[Any]) -> None:
        self._sampler, self._drawn = sampler, drawn

    def __iter__(self) -> Iterator[Any]:
        # Copies of lists: a shard of accelerate fills up the batch that it was handed.
        return (list(each) if isinstance(each, list) else each for each in self._drawn)

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


def batches_of_ranks(sampler: Any, rank: int, world_size: int) -> list[Iterator[Any]] | None:
    """Return what a loader's sampler of batches yields on each rank, of one drawing, so that random
    numbers move as they do without; None for a sampler whose ranks are not known.
    """
    kinds = [(each.__name__, each.__module__.partition(".")[0]) for each in type(sampler).__mro__]
    if kinds[0] == ("SkipBatchSampler", "accelerate"):  # a resume in the middle of an epoch
        inner = batches_of_ranks(sampler.batch_sampler, rank, world_size)
        return inner and [itertools.islice(each, sampler.skip_batches, None) for each in inner]
    if kinds[0] == ("BatchSamplerShard", "accelerate"):
        if (sampler.num_processes, sampler.process_index) != (world_size, rank):
            return None
        drawn = itertools.tee(_once(sampler.batch_sampler), world_size)
        return [
            iter(
                _changed(
                    sampler, process_index=each, batch_sampler=_Drawn(sampler.batch_sampler, own)
                )
            )
            for each, own in enumerate(drawn)
        ]
    inner = getattr(sampler, "sampler", None)
    if world_size == 1 or inner is None or not isinstance(getattr(sampler, "batch_size", 0), int):
        return [_once(sampler)] if world_size == 1 else None
    if (
        type(inner).__name__,
        type(inner).__module__.partition(".")[0],
    ) != ("DistributedSampler", "torch"):
        return None
    if kinds[0] != ("BatchSampler", "torch") or (inner.num_replicas, inner.rank) != (
        world_size,
        rank,
    ):
        return None
    # One rank of one has the numbers of all, in turn.
    whole = _changed(inner, rank=0, num_replicas=1, num_samples=inner.total_size)
    numbers = itertools.tee(_once(whole), world_size)
    return [
        iter(
            _changed(sampler, sampler=_Drawn(inner, itertools.islice(own, each, None, world_size)))
        )
        for each, own in enumerate(numbers)
    ]


def _once(sampler: Any) -> Iterator[Any]:
    yield from sampler  # which draws nothing before the first is asked for


def _changed(what: Any, **attributes: Any) -> Any:
    changed = copy.copy(what)
    vars(changed).update(attributes)
    return changed
