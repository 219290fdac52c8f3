"""What the first steps of a training in this program show of its loss, by which its padding is cut
and its steps are regrouped.
"""

import copy
import math
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from batchstat.applying.regrouping import Regrouper, Way
from batchstat.applying.step_numbers import StepNumbers
from batchstat.applying.step_state import all_agree, largest_of_ranks
from batchstat.recording.recorder.arguments import WholeNumbers, as_array
from batchstat.recording.recorder.forward import Forward
from batchstat.recording.recorder.log import ranks
from batchstat.recording.recorder.optimizers import makes_tail as step_makes_tail
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recorder.trainers import computed_step, makes_tail

SAME = 0.02  # by which weights that are equal may differ in numbers of few bits
_TOLD = 0.1  # by which numbers of tokens differ that tell a sum over a step from a mean of a batch


class WatchedSteps:
    """The steps of a training, which come as they are drawn until `settle` has checked them."""

    def __init__(self, accumulation: int, trainer: Any = None) -> None:
        self._trainer = trainer  # None of a loop, which cannot be asked to compute a step
        tail = trainer is not None and makes_tail(trainer)
        way = Way(False, False, accumulation, 1, 1, (), False, tail)
        self.regrouper = Regrouper(way, (), (), ranks)
        self._loader: ReadLoader | None = None
        self.numbers: Any = None  # of the samples of the last batch; None where they are not known
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
        self.numbers = None
        if not isinstance(iterator._sampler_iter, StepNumbers):
            return 0
        self.numbers = iterator._sampler_iter.handed[0].numbers
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


@dataclass(eq=False)
class WatchedBatch:
    """A batch that the loader handed out, and what was computed of it."""

    data: Any
    numbers: Any  # of its samples; None where they are not known
    forwards: list[tuple[list[ReadBatch], Forward]] = field(default_factory=list)
    arguments: list[tuple[Any, Any]] = field(default_factory=list)  # of each forward
    step: int = 0
    # Of each forward, whether the loss that was trained has no other width than its outputs.
    is_inside: list[bool] = field(default_factory=list)
    # (weights of trained tokens in the loss, whether only real tokens have some, and those of a row
    # the same), of each forward whose loss is computed of its logits outside.
    weights: list[tuple[Any, bool]] = field(default_factory=list)

    @property
    def arrays(self) -> Any:
        """Its tensors of whole numbers, as arrays in the same mappings and sequences."""
        return WholeNumbers(self.data).converted(as_array)


def why_unseen(batches: list[WatchedBatch]) -> str:
    """Return why batches do not show that padding has no part in the loss; empty if they do."""
    if not batches:
        return "no batch of its loader was seen in a forward of its model"
    if all(all(each.is_inside) for each in batches):
        return ""
    unknown = (
        "what its loss, outside of its model, divides by was not seen: batchstat run --apply "
        "checks that"
    )
    totals: dict[int, float] = defaultdict(float)
    trained: dict[int, int] = defaultdict(int)
    for each in batches:
        if len(each.weights) != len(each.forwards):
            return unknown
        for weights, is_of_tokens in each.weights:
            if not is_of_tokens:
                return "padding, or tokens of one row differently, have a part in its loss"
            totals[each.step] += float(weights.sum())
            trained[each.step] += int((weights > 0).sum())
    # A mean over trained tokens: the weights of a step have one sum, however many tokens it has.
    least, most = min(totals.values()), max(totals.values())
    return "" if most - least <= SAME * most and len({*trained.values()}) > 1 else unknown


def weights_apart(batches: list[WatchedBatch], over_ranks: bool) -> float:
    """Return by how much trained tokens of one step weigh differently, as a share: those of this
    rank, or of all of them, which all ask. Infinite where that was not seen, as where batches have
    equally many tokens.
    """
    steps: dict[int, list[tuple[float, int]]] = defaultdict(list)  # (weight of a token, tokens)
    is_seen = bool(batches)
    for each in batches:
        is_seen &= len(each.weights) == len(each.forwards) and all(ok for _, ok in each.weights)
        trained = [weights[weights > 0] for weights, _ in each.weights]
        n_tokens = sum(map(len, trained))
        is_seen &= n_tokens > 0
        total = sum(float(weights.sum()) for weights in trained)
        steps[each.step].append((total / max(n_tokens, 1), n_tokens))
    apart = told = 0.0
    for step in steps.values():
        weights, counts = [weight for weight, _ in step], [float(n) for _, n in step]
        if over_ranks:
            weights, counts = _of_ranks(weights), _of_ranks([sum(counts)])
        apart = max(apart, max(weights) / min(weights) - 1) if min(weights) > 0 else math.inf
        told = max(told, max(counts) / max(min(counts), 1) - 1)
    is_seen = all_agree(is_seen) if over_ranks else is_seen
    return apart if is_seen and told > _TOLD else math.inf


def _of_ranks(values: list[float]) -> list[float]:
    # The largest and the smallest that ranks have. Positive floats of 32 bits are in the order of
    # their bits.
    bits = [struct.unpack("i", struct.pack("f", each(values)))[0] for each in (max, min)]
    largest, smallest = largest_of_ranks([bits[0], -bits[1]])
    return [struct.unpack("f", struct.pack("i", each))[0] for each in (largest, -smallest)]


def token_weights(logits: Any, gradient: Any, real: Any) -> tuple[Any, bool]:
    """Return ((rows, width) weights of tokens in a cross-entropy of logits, whether only real ones
    have some, those of a row the same). The gradient of the logits of a token is its weight times
    (its probabilities, less 1 at the label).
    """
    import torch

    weights = torch.zeros(logits.shape[:2])
    for row in range(len(logits)):  # one by one, since a vocabulary may be large
        least, label = gradient[row].float().min(-1)
        chance = logits[row].float().softmax(-1).gather(-1, label[:, None])[:, 0]
        weights[row] = (-least / (1 - chance).clamp(min=1e-6)).cpu()
    is_real = torch.ones_like(weights, dtype=torch.bool)
    if real is not None:
        is_real = torch.as_tensor(real).reshape(weights.shape)
    rows = [row[row > 0] for row in weights]
    is_even = all(
        float(row.max() - row.min()) <= SAME * float(row.max()) for row in rows if len(row)
    )
    return weights, is_even and not bool((weights[~is_real] > 0).any())
