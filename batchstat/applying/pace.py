"""A cut of running batches: on after the first steps, and off where it does not save time."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .loaders import CuttingCollate, SharedCut

WHOLE_STEPS = 5  # the first ones, of which no batch is cut
_MOST_JUDGED = 50  # steps with cut batches after which it is known whether they take less time
_SETTLED = 2  # steps that allocate and compile


class PacedCut:
    """A cut, and the seconds of steps for each token that their batches had before it."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.shared = SharedCut()
        self._whole: list[float] = []
        self._cut: list[float] = []
        self._tokens, self._is_cut, self._began = 0, False, time.perf_counter()  # of the step

    def begin(self, iterator: Any) -> None:
        """Let the iterator of a loader cut what it collates."""
        iterator._collate_fn = CuttingCollate(iterator._collate_fn, self.shared)

    def note_tokens(self, before: int, after: int) -> None:
        """Note the tokens of a batch of the step."""
        self._tokens += before
        self._is_cut |= after < before

    def note_step(self) -> str:
        """Note that a step has ended: turn cutting on after the first steps. Return why it is
        turned off; empty where it is not. Nothing but time depends on it, so that each rank
        decides alone.
        """
        self.n_steps += 1
        now = time.perf_counter()
        if self._tokens and self.n_steps > _SETTLED:
            pace = (now - self._began) / self._tokens
            (self._cut if self._is_cut else self._whole).append(pace)
        self._tokens, self._is_cut, self._began = 0, False, now
        if self.n_steps == WHOLE_STEPS:
            self.shared.turn(on=True)
        # Steps with the first batch of a shape take longer, and count as they come.
        if len(self._cut) != _MOST_JUDGED or not self._whole:
            return ""
        if statistics.median(self._cut) < statistics.median(self._whole):
            return ""
        self.shared.turn(on=False)
        return "%d steps with cut batches took as long as those before" % _MOST_JUDGED
