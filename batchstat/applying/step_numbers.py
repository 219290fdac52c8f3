"""The numbers of samples that a loader asks for, on all ranks, as one of them draws them."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from .step_state import RandomState

_MOST_KEPT = 256  # turns, of which one step is checked


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


class Planned(NamedTuple):
    """A batch that a loader is asked for."""

    numbers: Any  # those of its samples
    today: int = 0  # tokens of the batch in whose place it comes; 0 where it is that one


class StepNumbers:
    """Stands in for the iterator over a loader's sampler: yields the numbers of batches as these
    are drawn, or, once a `regrouper` is on, those of each step regrouped.
    """

    def __init__(
        self, iterator: Any, ranks: tuple[int, int], regrouper: Any, n_carried: int
    ) -> None:
        self._sampler, self._ranks, self._regrouper = iterator._index_sampler, ranks, regrouper
        self.handed: deque[Planned] = deque()  # asked for, and not yielded by the loader yet
        self.n_turns, self.first = 0, 0  # turns that were drawn; the first that may be regrouped
        self.n_yielded = 0
        # Turns before the first step that is this epoch's alone; None where that is not known.
        self.offset: int | None = None
        self.is_ended = self.draws = False  # whether it draws random numbers within an epoch
        self.turns: list[list[Any]] = []  # the first ones
        self.n_carried = n_carried  # batches of the step that the epoch before left
        self._views: list[Any] | None = None
        self._own = ranks[0]
        self._ready: deque[Planned] = deque()

    @property
    def knows_ranks(self) -> bool:
        """Whether the batches of all ranks are known."""
        return self._views is not None and len(self._views) == self._ranks[1]

    def __iter__(self) -> StepNumbers:
        return self

    def __next__(self) -> Any:
        if self._views is None:
            self._begin()
        if not self._ready:
            self._draw()
        if not self._ready:
            raise StopIteration
        self.handed.append(self._ready.popleft())
        return self.handed[-1].numbers

    def _begin(self) -> None:
        try:
            self._views = batches_of_ranks(self._sampler, *self._ranks)
        except Exception:  # of a version that is not known; it has drawn nothing yet
            self._views = None
        if self._views is None:
            self._views, self._own = [iter(self._sampler)], 0
        if self._regrouper is not None:
            self._regrouper.agree(self)

    def _draw(self) -> None:
        """Draw the batches of a step, or of a turn."""
        regrouper, planned = self._regrouper, None
        if regrouper is not None and regrouper.begins_step(self):
            turns = self._draw_turns(regrouper.way.accumulation)
            planned = regrouper.planned(turns, self._own) if turns else None
        else:
            turns = self._draw_turns(1)
        as_drawn = [Planned(turn[self._own]) for turn in turns if turn[self._own] is not None]
        self._ready.extend(as_drawn if planned is None else planned)

    def _draw_turns(self, n_turns: int) -> list[list[Any]]:
        assert self._views is not None
        turns: list[list[Any]] = []
        for _ in range(n_turns):
            # The first one may draw: most samplers shuffle there.
            watches = self._regrouper is None or not self._regrouper.is_on
            state = RandomState() if watches and self.n_turns else None
            turn = [next(view, None) for view in self._views]
            self.draws |= state is not None and state.has_moved()
            if all(batch is None for batch in turn):
                self.is_ended = True
                break
            turns.append(turn)
            self.n_turns += 1
            if watches and len(self.turns) < _MOST_KEPT:
                self.turns.append(turn)
        return turns
