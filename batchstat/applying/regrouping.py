"""Puts the samples of each step of a running loop into other batches of that step."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .cutting import arrays_by_place, row_lengths
from .loaders import CuttingCollate
from .sample_lengths import UNKNOWN
from .step_numbers import Planned, StepNumbers
from .step_state import WHOLE_STEPS, largest_of_ranks

LENGTHS_FILE = "lengths.bin"  # (n_sets, n_samples) int32, beside the verdict


class Way(NamedTuple):
    """How the steps of a loader are regrouped."""

    over_ranks: bool  # whether the batches of all ranks are; else each rank's own
    equal_sizes: bool  # whether all batches of a step keep one size
    accumulation: int  # batches of each rank in a step
    tokens_per_batch: int  # of the largest batch that was seen
    multiple: int  # to which widths are rounded up
    widths: Sequence[int]  # for each set of token ids, the width of all rows; 0 where it varies
    in_turns: bool  # whether ranks wait for each other in every batch
    makes_tail: bool  # whether the last batches of an epoch, fewer than a step's, are a step
    sets_multiple: bool = False  # whether the collator gets it, since new widths take time


class Regrouper:
    """Regroups the steps of the loader that trains, once the first ones show that samples are as
    long as they were in the dry run. Ranks agree where an epoch begins, and after the first steps.
    """

    def __init__(self, way: Way, ends: Sequence[Any], lengths: Any, ranks: Any) -> None:
        """Take the `ends` and `lengths` of `SampleLengths`; `ranks` is that of the log."""
        self.way, self._ends, self._lengths = way, ends, lengths
        self.is_on = self.is_over = False  # whether it regroups; whether it has ended for good
        # Why this rank cannot go on, which ends it on all ranks where they agree next.
        self.why_not, self.n_steps, self._ranks = "", 0, ranks
        self.live: StepNumbers | None = None  # of the epoch that runs
        self._n_live = self._n_computed = 0  # steps that ended in it, and batches of these
        self._odd_size = 0  # of the last of them, if it had another number of batches than others
        # Whether a step goes on with what an epoch has left of it; None before one has.
        self._carries: bool | None = None

    @classmethod
    def of_verdict(cls, content: Mapping[str, Any], folder: str, ranks: Any) -> Regrouper:
        """Return one as a verdict says, in whose folder the lengths are."""
        import numpy

        ends = [(tuple(place), value) for place, value in content["ends"]]
        lengths = numpy.fromfile(os.path.join(folder, LENGTHS_FILE), dtype=numpy.int32)
        way = Way(**content["way"])
        return cls(way, ends, lengths.reshape(len(ends), -1), ranks)

    def begin(self, iterator: Any, n_carried: int) -> StepNumbers:
        """Let an iterator of the loader, which begins an epoch, ask for what is regrouped."""
        live = StepNumbers(iterator, self._ranks(), self, n_carried)
        if self.way.sets_multiple:
            set_multiple(iterator._collate_fn, self.way.multiple)
        if not n_carried or self._carries is False:
            live.offset = 0
        elif self._carries:
            live.offset = max(self.way.accumulation - n_carried, 0)
        iterator._sampler_iter = self.live = live
        self._n_live = self._odd_size = 0
        self._n_computed = -n_carried
        return live

    def settle(self, way: Way, ends: Sequence[Any], lengths: Any) -> None:
        """Set how steps are regrouped, where that is learnt in the training itself."""
        self.way, self._ends, self._lengths = way, ends, lengths

    def end(self, why_not: str) -> None:
        """Regroup no more, as all ranks do."""
        self.is_on, self.is_over = False, True
        sys.stderr.write("batchstat: steps are not regrouped: %s\n" % why_not)

    def agree(self, steps: StepNumbers) -> None:
        """Go on only if all ranks can, which all ask where an epoch begins."""
        if self.is_over:
            return
        if self.way.over_ranks and not steps.knows_ranks:
            self._refuse("the sampler of its ranks is not one that is known")
        self._end_unless_all_can(-1 if steps.offset is None else steps.offset)

    def _end_unless_all_can(self, offset: int, n_turns: int = 0) -> int:
        """Return the largest `n_turns` of all ranks, which go on if their offsets are the same."""
        try:
            numbers = [bool(self.why_not), offset, -offset, n_turns]
            is_refused, most, fewest, n_turns = largest_of_ranks(numbers)
        except Exception as error:  # as where a rank has ended: the loop comes to see that, too
            self.fail(error)
            is_refused, most, fewest = 1, offset, -offset
        if is_refused or most != -fewest:
            self.end(self.why_not or "another rank cannot go on")
        return n_turns

    def fail(self, error: Exception) -> None:
        """Remember an error, which ends regrouping where ranks agree next."""
        self._refuse(repr(error))

    def _refuse(self, why: str) -> None:
        self.why_not = self.why_not or why

    def begins_step(self, steps: StepNumbers) -> bool:
        """Return whether the next turns are those of a step that may be regrouped."""
        if not self.is_on or steps.offset is None or steps.n_turns < max(steps.first, steps.offset):
            return False
        return (steps.n_turns - steps.offset) % self.way.accumulation == 0

    def note_step(self, n_batches: int, n_passed: int | None) -> None:
        """Note that a step has ended, with so many batches of this rank. Its last one was the
        `n_passed`th of its epoch, None where that is not known.
        """
        self.n_steps += 1
        self._n_live += 1
        self._n_computed += n_batches
        expected = self.way.accumulation
        n_carried = 0 if self.live is None else self.live.n_carried
        if self._odd_size:  # more came behind it, so that it was not the rest of an epoch
            sizes = expected, self._odd_size
            self._refuse("its steps had %d batches of a rank, and one had %d" % sizes)
        if self._n_live == 1 and n_carried:
            self._carries = n_batches == expected
            expected += 0 if self._carries else n_carried
        self._odd_size = 0 if n_batches == expected else n_batches
        if self.n_steps == WHOLE_STEPS and not self.is_over:
            self._begin_regrouping(n_passed)

    def _begin_regrouping(self, n_passed: int | None) -> None:
        """Regroup from a turn on that no rank has drawn yet, if all ranks can."""
        steps = self.live
        if steps is not None and steps.draws:
            self._refuse("its sampler draws random numbers within an epoch")
        elif steps is None:
            self._refuse("its loader was not iterated yet")
        elif n_passed is None and self._n_computed == steps.n_yielded:
            n_passed = steps.n_yielded
        elif n_passed is None and not steps.is_ended:
            self._refuse("which of its batches ends a step is not known")
        offset = (n_passed or 0) % self.way.accumulation
        n_turns = self._end_unless_all_can(offset, 0 if steps is None else steps.n_turns)
        self.is_on = not self.is_over
        if steps is not None:
            steps.first, steps.offset = n_turns, offset

    def note_batch(self, steps: StepNumbers, data: Any) -> int:
        """Note a batch that the loader yields. Return the tokens of the one in whose place it came;
        0 where it is that one.
        """
        planned = steps.handed.popleft()
        steps.n_yielded += 1
        if not self.is_over:
            try:
                self._compare(planned.numbers, data)
            except Exception as error:
                self.fail(error)
        return planned.today

    def _compare(self, numbers: Any, data: Any) -> None:
        """Compare the lengths of the samples of a batch with those of the dry run."""
        arrays = dict(arrays_by_place(data))
        for (place, value), lengths in zip(self._ends, self._lengths):
            found = row_lengths(arrays[place], value) if place in arrays else []
            for number, its in zip(numbers, found):
                if lengths[number] not in (its, UNKNOWN):
                    of_sample = number, its, lengths[number]
                    self._refuse("sample %d has %d tokens, and had %d in the dry run" % of_sample)
            if len(found) != len(numbers):
                self._refuse("the rows of a batch are not the samples that were asked for")

    def planned(self, turns: Sequence[Sequence[Any]], own: int) -> list[Planned] | None:
        """Return the batches of a rank in a step of these turns; None where it stays as it is."""
        try:
            return self._planned(turns, own)
        except Exception as error:
            self.fail(error)
            return None

    def _planned(self, turns: Sequence[Sequence[Any]], own: int) -> list[Planned] | None:
        is_step = len(turns) == self.way.accumulation or self.way.makes_tail
        ways = turns if self.way.over_ranks else [turn[own : own + 1] for turn in turns]
        if not is_step or any(batch is None for turn in ways for batch in turn):
            return None
        found = regrouped(self.way, self._lengths, ways)
        return None if found is None else found[own if self.way.over_ranks else 0]


def regrouped(way: Way, lengths: Any, turns: Sequence[Sequence[Any]]) -> list[list[Planned]] | None:
    """Return the batches of each rank in a step, as many as today; None where the step stays as it
    is. `lengths` (n_sets, n_samples) are by number, `turns` those of today's batches.
    """
    import numpy

    batches = [batch for turn in turns for batch in turn]
    numbers = numpy.array([number for batch in batches for number in batch], dtype=numpy.int64)
    if not numbers.size or numbers.max() >= lengths.shape[1] or (lengths[0, numbers] < 0).any():
        return None
    world_size = len(turns[0])
    sizes = numpy.array([len(batch) for batch in batches]).reshape(-1, world_size)
    rules = planner().StepRules(
        world_size=world_size,
        tokens_per_batch=way.tokens_per_batch,
        pad_to_multiple_of=way.multiple,
        in_turns=way.in_turns,
        equal_sizes=way.equal_sizes,
    )
    of_step = lengths[:, numbers].astype(numpy.int64)
    found = planner().regrouped_step(of_step.sum(0), sizes, rules)
    if found is None or (found[1] == 0).any():  # a loop asks for as many batches as today
        return None
    order, new_sizes = found
    today = numpy.split(of_step, numpy.cumsum(sizes.ravel())[:-1], axis=1)
    new = numpy.split(numbers[order], numpy.cumsum(new_sizes.ravel())[:-1])
    planned = [Planned(n.tolist(), tokens_of(way, was)) for n, was in zip(new, today)]
    return [planned[rank::world_size] for rank in range(world_size)]


def set_multiple(collate: Any, multiple: int) -> bool:
    """Let a collator round widths up to a multiple; return whether it can."""
    while isinstance(collate, CuttingCollate):
        collate = collate.collate
    can = hasattr(collate, "pad_to_multiple_of")
    if can:
        collate.pad_to_multiple_of = multiple
    return can


def tokens_of(way: Way, lengths: Any) -> int:
    """Return the tokens of a batch of samples of (n_sets, n) lengths, padding included."""
    widths = [
        fixed or -(-max(int(longest), 1) // way.multiple) * way.multiple
        for fixed, longest in zip(way.widths, lengths.max(1))
    ]
    return int(lengths.shape[1]) * sum(widths)


def planner() -> Any:
    """Return the module that plans a step: batchstat's own, or that of its folder."""
    if __name__.startswith("batchstat."):
        from batchstat.planning.algorithms import step_batches
    else:
        from batchstat_algorithms import step_batches  # type: ignore[import-not-found, no-redef]
    return step_batches
