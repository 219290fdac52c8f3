"""A dry run of a loop without a Trainer: its first steps show how to read the rest of an epoch."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .arguments import WholeNumbers, as_array, sign_of
from .handing import Handing
from .loaders import Fetched, Loaders, goes_on
from .read_batches import ReadBatch

if TYPE_CHECKING:
    from .forward import Forward

_MOST_READ = 100_000  # batches that are read at most: a sampler may draw without an end


class DryRun:
    """What the computed steps show of a loop."""

    def __init__(self, loaders: Loaders) -> None:
        self.why_less = ""  # why less than an epoch was read; empty if all of it was
        self.why_unseen = ""  # why the loader that trains was not seen; empty if it was
        self._loaders, self._handing = loaders, Handing()
        # The loader's batches that were computed, in their sequence; whether several backwards
        # compute one of them; how many batches each step computed.
        self._computed: dict[Fetched, None] = {}
        self._is_split = False
        self._batches_of_steps: collections.Counter[int] = collections.Counter()

    def learn(
        self,
        step: int,
        computed: list[tuple[list[ReadBatch], Forward]],
        known: list[Fetched],
        last: Fetched | None,
    ) -> Fetched | None:
        """Learn from the forwards of a batch how the loop hands a loader's batch to its model. That
        is one `known` to have the same token ids, or a recent one of which the model was given a
        part, such as all tokens but the last. `last` came before it. Return the loader's batch;
        None if none explains what was computed.
        """
        self._batches_of_steps[step] += 1
        epoch, epochs = last and last.epoch, computed[0][1].epochs
        recent = [each for each in self._loaders.recent if each.epoch <= epochs.newest]
        # One that was not computed yet, and of the iterator that runs, not an ended evaluation's.
        best_first = sorted(
            dict.fromkeys([*known, *(each for each in recent if goes_on(each, last, epochs))]),
            key=lambda each: (
                each in self._computed,
                each.epoch not in epochs.live,
                each not in known,
                each.epoch != epoch,
                -each.epoch,
            ),
        )
        for fetched in best_first:
            if self._handing.learn(computed, fetched.arrays):
                self._is_split |= fetched in self._computed
                self._computed[fetched] = None
                return fetched
        return None

    def rest(self, most_steps: int, applier: Any) -> Iterator[tuple[Fetched, list[ReadBatch]]]:
        """Yield the other batches of the epoch, or of so many steps, and what would be computed. An
        `applier`, which may be None, looks at each of them, and at more where it is not known which
        would be computed.
        """
        batches = list(self._computed)
        self.why_less = self.why_unseen = self._why_unseen(batches)
        # Of several iterators, the first came to its end.
        if self.why_less or batches[0].epoch != batches[-1].epoch:
            return
        rest = self._loaders.read_uncomputed(batches[-1], self._computed)
        for number, fetched in enumerate(rest, len(batches)):
            if number == len(batches):
                self.why_less = self._why_open(batches)
            looks_at_more = applier is not None and applier.note(
                fetched.iterator and fetched.iterator(),
                fetched.data,
                self._handing.read_whole(fetched.arrays),
                self._handing.model.pad_token_id,
                None,
                fetched.numbers,
            )
            if self.why_less and looks_at_more:
                continue
            if self.why_less or number == most_steps * max(self._batches_of_steps.values()) > 0:
                return
            parts = self._handing.read(fetched.arrays)
            if number == _MOST_READ:
                self.why_less = "%d batches were read, and the loader had more" % number
            elif parts is None:
                self.why_less = "the computed batches do not show how others are cut"
            else:
                yield fetched, parts

    def begin_checks(self, applier: Any, optimizers: list[Any], stop: Any, tail: bool) -> bool:
        """Let the loop compute what checks how its batches are cut and regrouped; return whether it
        does. With a `tail`, the last batches of an epoch, fewer than a step's, are a step.
        """
        last = next(reversed(list(self._computed)), None)
        iterator = last and last.iterator and last.iterator()
        model = self._handing.model and self._handing.model.module()
        if self.why_unseen or iterator is None or model is None:
            applier.write(why_not=self.why_unseen or "its loop does not iterate over its loader")
            return False

        def given_of(data: Any) -> Any:
            return sign_of(self._handing.read(WholeNumbers(data).converted(as_array)) or [])

        for each in self._computed:
            if each.iterator and each.iterator() is not None and each.data is not None:
                applier.note_computed(each.iterator(), each.numbers, each.data)
        sizes = {*self._batches_of_steps.values()}
        accumulation = sizes.pop() if len(sizes) == 1 else 0
        begins: bool = applier.begin_loop(model, optimizers, given_of, stop, accumulation, tail)
        if begins:
            self._loaders.injected = iterator, applier.check.next_batch
        return begins

    def _why_unseen(self, batches: list[Fetched]) -> str:
        """Return why no epoch is seen in the computed batches; empty if one is."""
        if self._is_split:
            return "several backwards compute one batch of its loader"
        if not batches or len(batches) < sum(self._batches_of_steps.values()):
            return "how the loop makes its batches was not seen"
        iterators = [each.epoch for each in batches]
        first = batches[0].source
        drawn = {n for each in batches if each.epoch == first[0] for n in each.numbers or ()}
        # A loader that begins again has come to its end: one of each epoch draws the same samples.
        is_again = all(
            each.source[1:] == first[1:]
            or (each.source[1] == first[1] and not drawn.isdisjoint(each.numbers or ()))
            for each in batches
        )
        if iterators != sorted(iterators) or not is_again:
            return "batches of several loaders are computed, and it did not come to their ends"
        return ""

    def _why_open(self, batches: list[Fetched]) -> str:
        """Return why the computed batches do not show how the others are; empty if they do."""
        is_settled = self._handing.settle()
        n_taken = max(each.place for each in batches) + 1
        if n_taken > len(batches):
            numbers = n_taken - len(batches), n_taken
            return "%d of the first %d batches of its loader were not computed" % numbers
        per_step = self._batches_of_steps.values()
        if min(per_step) < max(per_step):
            return "its steps have from %d to %d batches" % (min(per_step), max(per_step))
        if not is_settled:
            return "how its batches come out of those of its loader was not seen"
        return ""
