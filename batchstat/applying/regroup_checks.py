"""Which step of a dry run is computed regrouped, in which ways, to check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .checks import CheckedStep, Stage
from .cutting import Cut, UnknownError, arrays_by_place
from .learning import Learner
from .loaders import CuttingCollate
from .regrouping import Planned, StepNumbers, Way, regrouped, tokens_of
from .step_state import RandomState, all_agree, largest_of_ranks

_SHARDED = {"FullyShardedDataParallel", "FSDPModule"}  # ranks meet in each batch of these


class ReadLoader:
    """The loader of an iterator: how its samples are drawn, and fetched by number."""

    def __init__(
        self, iterator: Any, ranks: tuple[int, int], regrouper: Any = None, n_carried: int = 0
    ) -> None:
        """Note what an iterator draws, if it draws numbers of samples; a `regrouper` may be on
        later.
        """
        self._data_set, self._collate = iterator._dataset, iterator._collate_fn
        if isinstance(self._collate, CuttingCollate):
            self._collate = self._collate.collate
        self.steps: StepNumbers | None = None
        self.why_not = ""  # why its steps cannot be regrouped
        if iterator._dataset_kind != 0:  # that of a data set with an index
            self.why_not = "a stream has no sample numbers"
        elif not iterator._auto_collation:
            self.why_not = "its loader makes no batches: it has batch_size=None"
        elif not getattr(iterator, "_in_order", True):
            self.why_not = "its loader yields batches in the sequence in which workers have them"
        else:
            self.steps = StepNumbers(iterator, ranks, regrouper, 0)
            if regrouper is not None:
                self.steps = regrouper.begin(iterator, n_carried)
            iterator._sampler_iter = self.steps

    @property
    def n_samples(self) -> int:
        """The size of its data set; 0 where that has none."""
        try:
            return len(self._data_set)
        except TypeError:
            return 0

    def fetch(self, numbers: Sequence[int]) -> Any:
        """Return the batch of samples. Raises UnknownError where it is another one each time."""
        state = RandomState()
        batch = self.fetch_once(numbers)
        has_moved = state.has_moved()
        state.restore()
        again = dict(arrays_by_place(self.fetch_once(numbers)))
        state.restore()
        arrays = dict(arrays_by_place(batch))
        if has_moved or not _are_equal(arrays, again):
            raise UnknownError("its collator or data set draws random numbers")
        return batch

    def fetch_once(self, numbers: Sequence[int]) -> Any:
        """Return the batch of samples, as it comes now."""
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        return _MapDatasetFetcher(self._data_set, True, self._collate, False).fetch(numbers)


def _are_equal(arrays: dict[Any, Any], others: dict[Any, Any]) -> bool:
    import torch

    return arrays.keys() == others.keys() and all(
        each.shape == others[place].shape and torch.equal(each, others[place])
        for place, each in arrays.items()
    )


class RegroupedStep(NamedTuple):
    """A step that is computed as it came and in several ways, and what a verdict has of these."""

    step: CheckedStep
    ways: Sequence[Way]  # of the stages after the first two
    ends: Sequence[Any]
    lengths: Any  # (n_sets, n_samples)


def regrouped_step(
    loader: ReadLoader,
    learner: Learner,
    cut: Cut | None,
    first_way: Way,
    seen: Sequence[Any],
    ranks: tuple[int, int],
    sign_of: Callable[[Any], Any],
) -> RegroupedStep:
    """Return the step to check, which all ranks choose alike. `first_way` says what is the same in
    all ways; batches that were `seen` say how large one may be. Raises UnknownError, on all ranks.
    """
    steps, why_not, accumulation = loader.steps, loader.why_not, first_way.accumulation
    if steps is not None and steps.draws:
        why_not = "its sampler draws random numbers within an epoch"
    elif not accumulation:
        why_not = "its steps have several numbers of batches"
    elif accumulation * ranks[1] == 1:
        why_not = "its steps have one batch each"
    numbers = int(bool(why_not)), loader.n_samples, -loader.n_samples
    refused, most, fewest = largest_of_ranks([*numbers])
    if refused or most != -fewest or not most:
        raise UnknownError(why_not or "another rank has another loader")
    assert steps is not None
    ends, lengths = learner.lengths.by_number(most)
    largest = max((tokens_of(first_way, lengths[:, batch]) for batch in seen), default=1)
    base = first_way._replace(tokens_per_batch=largest_of_ranks([largest])[0])
    knows_ranks = all_agree(steps.knows_ranks)
    own = ranks[0] if knows_ranks else 0
    ways = _ways_of(base, knows_ranks and ranks[1] > 1)
    turns, planned = _best_step(steps.turns, ways, lengths, own)
    # A rank that has nothing to regroup computes what it has, while others do.
    has_gain = largest_of_ranks([each is not None for each in planned])
    ways = [way for way, gains in zip(ways, has_gain) if gains]
    planned = [each for each, gains in zip(planned, has_gain) if gains]
    if not ways:
        raise UnknownError("no step would have less padding")
    try:
        today = [loader.fetch(turn[own]) for turn in turns]
        stages = [Stage(today, [sign_of(batch) for batch in today])]
        for each in planned:
            batches = [loader.fetch(one.numbers) for one in each] if each else today
            batches = [cut(batch)[0] if cut and each else batch for batch in batches]
            stages.append(Stage(batches, [sign_of(batch) for batch in batches]))
        why_not = ""
    except Exception as error:
        why_not = str(error) if isinstance(error, UnknownError) else repr(error)
    if not all_agree(not why_not):
        raise UnknownError(why_not or "another rank cannot fetch samples by their numbers")
    return RegroupedStep(CheckedStep(stages[0], stages[1:]), ways, ends, lengths)


def _ways_of(way: Way, knows_ranks: bool) -> list[Way]:
    """Return the ways to regroup, the one that saves most first."""
    found = [way._replace(over_ranks=over) for over in (True, False) if knows_ranks or not over]
    if way.accumulation == 1:  # one rank's own step has nothing to regroup
        found = found[:1]
    return [*found, *(each._replace(equal_sizes=True) for each in found)]


def _best_step(
    turns: Sequence[Sequence[Any]], ways: Sequence[Way], lengths: Any, own: int
) -> tuple[Sequence[Sequence[Any]], list[list[Planned] | None]]:
    """Return the turns of the step that saves most by the first way, and the batches of this rank
    in each way; None in one that changes nothing.
    """
    n_turns = ways[0].accumulation
    best: tuple[int, Any] = -1, []
    for first in range(0, len(turns) - n_turns + 1, n_turns):
        step = turns[first : first + n_turns]
        found = _planned(ways[0], lengths, step, own, of_all=True)
        saved = sum(p.today - tokens_of(ways[0], lengths[:, p.numbers]) for p in found or ())
        best = max(best, (saved, step), key=lambda each: each[0])
    step = best[1]
    return step, [_planned(way, lengths, step, own) if step else None for way in ways]


def _planned(
    way: Way, lengths: Any, step: Sequence[Sequence[Any]], own: int, of_all: bool = False
) -> list[Planned] | None:
    if any(batch is None for turn in step for batch in turn):
        return None
    if not way.over_ranks:
        step, own = [turn[own : own + 1] for turn in step], 0
    found = regrouped(way, lengths, step)
    if found is None:
        return None
    return [planned for rank in found for planned in rank] if of_all else found[own]


def meets_in_batches(model: Any) -> bool:
    """Return whether the ranks of a model wait for each other in every batch."""
    kinds = {kind.__name__ for each in model.modules() for kind in type(each).__mro__}
    return bool(kinds & _SHARDED)
