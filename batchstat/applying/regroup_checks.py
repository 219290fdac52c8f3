"""Which step of a dry run is computed regrouped, in which ways, to check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .checks import CheckedStep, Stage
from .cutting import Cut, UnknownError, arrays_by_place
from .learning import Learner
from .loaders import CuttingCollate
from .regrouping import Way, regrouped, tokens_of
from .sample_lengths import fill_up
from .step_numbers import Planned, StepNumbers
from .step_state import ONE_BATCH, RandomState, all_agree, largest_of_ranks

_SHARDED = {"FullyShardedDataParallel", "FSDPModule"}  # ranks meet in each batch of these


class ReadLoader:
    """The loader of an iterator: how its samples are drawn, and fetched by number."""

    def __init__(
        self, iterator: Any, ranks: tuple[int, int], regrouper: Any = None, n_carried: int = 0
    ) -> None:
        """Note what an iterator draws, if it draws numbers of samples; a `regrouper` may be on
        later.
        """
        self._data_set, self.collate = iterator._dataset, iterator._collate_fn
        if isinstance(self.collate, CuttingCollate):
            self.collate = self.collate.collate
        self.n_begun = 1  # how often it was iterated with gradients, as ranks have to alike
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

        return _MapDatasetFetcher(self._data_set, True, self.collate, False).fetch(numbers)


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
        why_not = ONE_BATCH
    sizes = loader.n_samples, loader.n_begun
    numbers = [bool(why_not), *sizes, *(-size for size in sizes)]
    refused, most, n_begun, *fewest = largest_of_ranks(numbers)
    if refused or [-most, -n_begun] != fewest or not most:
        raise UnknownError(why_not or "its ranks do not have the same loader equally often")
    assert steps is not None
    ends, lengths = learner.lengths.by_number(most)
    lengths = fill_up(lengths, ends, loader.fetch, ranks)
    largest = max((tokens_of(first_way, lengths[:, batch]) for batch in seen), default=1)
    base = first_way._replace(tokens_per_batch=largest_of_ranks([largest])[0])
    knows_ranks = all_agree(steps.knows_ranks)
    own = ranks[0] if knows_ranks else 0
    ways = _ways_of(base, knows_ranks and ranks[1] > 1)
    turns, of_ranks = _best_step(steps.turns, ways, lengths)
    # A rank that has nothing to regroup computes what it has, while others do.
    shown = largest_of_ranks([_shows(way, each) for way, each in zip(ways, of_ranks)])
    planned = [each[own] for each, is_shown in zip(of_ranks, shown) if is_shown]
    ways = [way for way, is_shown in zip(ways, shown) if is_shown]
    if not all_agree(bool(ways and turns)):
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
    # The way that saves most comes first.
    found = [way._replace(over_ranks=over) for over in (True, False) if knows_ranks or not over]
    if way.accumulation == 1:  # one rank's own step has nothing to regroup
        found = found[:1]
    return [*found, *(each._replace(equal_sizes=True) for each in found)]


def _best_step(
    turns: Sequence[Sequence[Any]], ways: Sequence[Way], lengths: Any
) -> tuple[Sequence[Sequence[Any]], list[list[list[Planned] | None]]]:
    """Return the turns of a step to check, and in each way the batches of each rank, None for one
    in which nothing changes. It is a step that shows most ways, and of such ones saves most by the
    first of them.
    """
    n_turns = ways[0].accumulation
    best: tuple[int, int, Any, Any] = -1, 0, [], [[None] for _ in ways]
    for first in range(0, len(turns) - n_turns + 1, n_turns):
        step = turns[first : first + n_turns]
        if any(batch is None for turn in step for batch in turn):
            continue
        found = [_planned(way, lengths, step) for way in ways]
        batches = [planned for of_rank in found[0] for planned in of_rank or ()]
        saved = sum(p.today - tokens_of(ways[0], lengths[:, p.numbers]) for p in batches)
        n_shown = sum(_shows(way, each) for way, each in zip(ways, found))
        best = max(best, (n_shown, saved, step, found), key=lambda each: each[:2])
    return best[2:]


def _shows(way: Way, planned: Sequence[Sequence[Planned] | None]) -> bool:
    # A mean over samples stays the same if sizes happen to be equal: that shows nothing of a way.
    sizes = [[len(each.numbers) for each in of_rank] for of_rank in planned if of_rank]
    together = [[size for of_rank in sizes for size in of_rank]] if way.over_ranks else sizes
    return bool(sizes) and (way.equal_sizes or any(len({*each}) > 1 for each in together))


def _planned(way: Way, lengths: Any, step: Sequence[Sequence[Any]]) -> list[list[Planned] | None]:
    if way.over_ranks:
        together = regrouped(way, lengths, step)
        return [None] * len(step[0]) if together is None else [*together]
    of_ranks = [[turn[rank : rank + 1] for turn in step] for rank in range(len(step[0]))]
    found = [regrouped(way, lengths, each) for each in of_ranks]
    return [None if each is None else each[0] for each in found]


def meets_in_batches(model: Any) -> bool:
    """Return whether the ranks of a model wait for each other in every batch."""
    kinds = {kind.__name__ for each in model.modules() for kind in type(each).__mro__}
    return bool(kinds & _SHARDED)
