"""Regroups the steps of a Trainer in this program, once its first steps show how it computes."""

import copy
import time
from collections import defaultdict
from typing import Any

from batchstat.applying.checks import Checks, check_trainer
from batchstat.applying.cutting import Cut, UnknownError
from batchstat.applying.learning import Learner
from batchstat.applying.regroup_checks import ReadLoader, meets_in_batches, regrouped_step
from batchstat.applying.regrouping import Regrouper, StepNumbers, Way
from batchstat.applying.step_state import largest_of_ranks
from batchstat.recording.recorder.log import ranks
from batchstat.recording.recorder.trainers import computed_step, makes_tail

_MOST_SECONDS = 60.0  # that reading the lengths of all samples may take
_AT_ONCE = 64  # samples that are read together


class WatchedSteps:
    """The steps of a Trainer, which come as they are drawn until `settle` has checked them."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        accumulation = trainer.args.gradient_accumulation_steps
        way = Way(False, False, accumulation, 1, 1, (), False, makes_tail(trainer))
        self.regrouper = Regrouper(way, (), (), ranks)
        self._loader: ReadLoader | None = None

    def begin_epoch(self, iterator: Any) -> None:
        """Let an iterator of the loader that trains ask for what is regrouped."""
        self._loader = ReadLoader(iterator, ranks(), self.regrouper)

    def follow(self, iterator: Any, data: Any) -> int:
        """Note a batch. Return the tokens of the one in whose place it came; 0 where it is that."""
        if not isinstance(iterator._sampler_iter, StepNumbers):
            return 0
        return self.regrouper.note_batch(iterator._sampler_iter, data)

    def note_step(self) -> None:
        """Note that a step has ended."""
        self.regrouper.note_step(self.regrouper.way.accumulation)

    def settle(self, learner: Learner, cut: Cut | None, why_not: str, multiple: int) -> str:
        """Check how steps can be regrouped, if it is not known already `why_not`. All ranks call it
        after the same step. Return what to say of it.
        """
        try:
            if largest_of_ranks([bool(why_not) or self._loader is None])[0]:
                raise UnknownError(why_not or "its loader was not seen")
            way, apart = self._checked(learner, cut, multiple)
        except UnknownError as error:
            self.regrouper.end(str(error))
            return ""
        where = " on each rank" if ranks()[1] > 1 and not way.over_ranks else ""
        return f"steps are regrouped{where} from now on: gradients of one are equal to {apart:.0e}"

    def _checked(self, learner: Learner, cut: Cut | None, multiple: int) -> tuple[Way, float]:
        loader, trainer = self._loader, self._trainer
        assert loader is not None
        model = trainer.model_wrapped
        self._read_lengths(loader, learner)
        way = self.regrouper.way._replace(
            multiple=multiple, widths=learner.fixed_widths, in_turns=meets_in_batches(model)
        )
        turns = [] if loader.steps is None else loader.steps.turns
        seen = [batch for turn in turns for batch in turn if batch]
        found = regrouped_step(loader, learner, cut, way, seen, ranks(), lambda _: None)
        counted = {name: value for name, value in vars(trainer).items() if _counts(name, value)}
        before = copy.deepcopy(counted)
        checks = Checks(model, list(model.parameters()), [], found.step)

        def compute(batches: Any) -> float:
            return computed_step(trainer, trainer.training_step, model, batches, is_counted=True)

        checked = check_trainer(checks, model, compute)
        model.zero_grad(set_to_none=True)  # the optimizer has stepped
        vars(trainer).update(before)
        refused = largest_of_ranks([bool(why) for why, _ in checked.ways])
        for way, is_refused, (_, apart) in zip(found.ways, refused, checked.ways, strict=True):
            if not is_refused:
                self.regrouper.settle(way, found.ends, found.lengths)
                return way, apart
        why = next((why for why, _ in checked.ways if why), "")
        raise UnknownError(f"regrouped, a step changes {why}" if why else "another rank cannot")

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
    """Return whether a Trainer's attribute may be a count of what it computed, such as metrics."""
    return name.startswith("_") and type(value) in (int, float, dict, list, defaultdict)
