"""Regroups the steps of a training in this program, once the first ones show how it computes."""

import copy
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from batchstat.applying.checks import Checks, check_trainer
from batchstat.applying.cutting import Cut, UnknownError
from batchstat.applying.learning import Learner
from batchstat.applying.regroup_checks import (
    ReadLoader,
    RegroupedStep,
    meets_in_batches,
    regrouped_step,
)
from batchstat.applying.regrouping import Regrouper, StepNumbers, Way
from batchstat.applying.step_state import largest_of_ranks
from batchstat.recording.recorder.log import ranks
from batchstat.recording.recorder.optimizers import makes_tail as step_makes_tail
from batchstat.recording.recorder.trainers import computed_step, makes_tail
from batchstat.training.watched_batches import SAME, weights_apart

_MOST_SECONDS = 60.0  # that reading the lengths of all samples may take
_AT_ONCE = 64  # samples that are read together


class WatchedSteps:
    """The steps of a training, which come as they are drawn until `settle` has checked them."""

    def __init__(self, accumulation: int, trainer: Any = None) -> None:
        self._trainer = trainer  # None of a loop, which cannot be asked to compute a step
        tail = trainer is not None and makes_tail(trainer)
        way = Way(False, False, accumulation, 1, 1, (), False, tail)
        self.regrouper = Regrouper(way, (), (), ranks)
        self._loader: ReadLoader | None = None
        self._n_yielded = 0  # batches since the last step
        self._n_steps = 0  # of this epoch

    def begin_epoch(self, iterator: Any) -> None:
        """Let an iterator of the loader that trains ask for what is regrouped."""
        # What makes a step of the last batches carries none over; it may have read one ahead.
        n_carried = 0 if self.regrouper.way.makes_tail else self._n_yielded
        self._loader = ReadLoader(iterator, ranks(), self.regrouper, n_carried)
        self._n_steps = 0

    def follow(self, iterator: Any, data: Any) -> int:
        """Note a batch. Return the tokens of the one in whose place it came; 0 where it is that."""
        if not isinstance(iterator._sampler_iter, StepNumbers):
            return 0
        self._n_yielded += 1
        return self.regrouper.note_batch(iterator._sampler_iter, data)

    def note_step(self) -> None:
        """Note that a step has ended."""
        self._n_yielded = 0
        self._n_steps += 1
        n_batches = self.regrouper.way.accumulation
        # What makes a step of the last batches begins one with each epoch.
        n_passed = self._n_steps * n_batches if self.regrouper.way.makes_tail else None
        self.regrouper.note_step(n_batches, n_passed)

    def settle(
        self,
        learner: Learner,
        cut: Cut | None,
        why_not: str,
        multiple: int,
        watched: Any,
        model: Any,
    ) -> str:
        """Check how the steps of a model can be regrouped, if it is not known already `why_not`.
        All ranks call it after the same step; batches were `watched` until then. Return what to say
        of it.
        """
        if self.regrouper.way.accumulation * ranks()[1] == 1:  # there is nothing to say
            self.regrouper.is_over = True
            return ""
        try:
            if largest_of_ranks([bool(why_not) or self._loader is None])[0]:
                raise UnknownError(why_not or "its loader was not seen")
            assert self._loader is not None
            self._read_lengths(self._loader, learner)
            tail = self.regrouper.way.makes_tail or step_makes_tail()
            in_turns, widths = meets_in_batches(model), learner.fixed_widths
            way = self.regrouper.way._replace(
                multiple=multiple, widths=widths, in_turns=in_turns, makes_tail=tail
            )
            turns = [] if self._loader.steps is None else self._loader.steps.turns
            seen = [batch for turn in turns for batch in turn if batch]
            found = regrouped_step(self._loader, learner, cut, way, seen, ranks(), lambda _: None)
            way, apart = self._agreed(found, watched)
        except UnknownError as error:
            self.regrouper.end(str(error))
            return ""
        self.regrouper.settle(way, found.ends, found.lengths)
        where = " on each rank" if ranks()[1] > 1 and not way.over_ranks else ""
        what = "weights of its tokens" if self._trainer is None else "gradients of one"
        return f"steps are regrouped{where} from now on: {what} are equal to {apart:.0e}"

    def _agreed(self, found: RegroupedStep, watched: Any) -> tuple[Way, float]:
        """Return the first way that all ranks can go, and how much it changes."""
        if self._trainer is None:
            compared = _by_weights(found.ways, watched)
        else:
            compared = _computed(found, self._trainer)
        refused = largest_of_ranks([bool(why) for why, _ in compared])
        for way, is_refused, (_, apart) in zip(found.ways, refused, compared, strict=True):
            if not is_refused:
                return way, apart
        raise UnknownError(next((why for why, _ in compared if why), "another rank cannot"))

    def _read_lengths(self, loader: ReadLoader, learner: Learner) -> None:
        """Read the lengths of all samples, a share of them on each rank."""
        rank, world_size = ranks()
        numbers = range(rank, loader.n_samples, world_size)
        began, why_not = time.monotonic(), loader.why_not
        for first in () if why_not else range(0, len(numbers), _AT_ONCE):
            part = [*numbers[first : first + _AT_ONCE]]
            try:
                data = loader.fetch(part) if not first else loader.fetch_once(part)
            except Exception as error:  # of the collator, say
                why_not = str(error) if isinstance(error, UnknownError) else repr(error)
                break
            learner.note_lengths(part, data)
            expected = (time.monotonic() - began) / (first + len(part)) * len(numbers)
            if expected > _MOST_SECONDS and first > _AT_ONCE:
                why_not = (
                    f"its samples take {expected:.0f} s to read: batchstat run --apply does it"
                )
                break
        if largest_of_ranks([bool(why_not)])[0]:
            raise UnknownError(why_not or "another rank cannot read the lengths of its samples")


def _counts(name: str, value: Any) -> bool:
    # A Trainer's attribute may be a count of what it computed, such as metrics.
    return name.startswith("_") and type(value) in (int, float, dict, list, defaultdict)


def _computed(found: RegroupedStep, trainer: Any) -> list[tuple[str, float]]:
    """Return (why not, how much changes) of each way, as a Trainer computes a step in it."""
    model = trainer.model_wrapped
    before = copy.deepcopy({n: value for n, value in vars(trainer).items() if _counts(n, value)})
    checks = Checks(model, list(model.parameters()), [], found.step)

    def compute(batches: Any) -> float:
        return computed_step(trainer, trainer.training_step, model, batches, is_counted=True)

    ways = check_trainer(checks, model, compute).ways
    model.zero_grad(set_to_none=True)  # the optimizer has stepped
    vars(trainer).update(before)
    return [(why and f"regrouped, a step changes {why}", apart) for why, apart in ways]


def _by_weights(ways: Sequence[Way], watched: Any) -> list[tuple[str, float]]:
    """Return (why not, how much changes) of each way, as the first steps weigh their tokens. Their
    batches have one size: whether a loss is divided by it is not seen, so that it has to stay.
    """
    unknown = "that its loss is a sum over the step was not seen: batchstat run --apply checks that"
    found = []
    for way in ways:
        apart = max([weights_apart(watched, over) for over in {False, way.over_ranks}])
        found.append(("" if way.equal_sizes and apart <= SAME else unknown, apart))
    return found
