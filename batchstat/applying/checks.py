"""The checks of a dry run: the same step is computed as its batches came, again, and cut."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from .same_training import (
    Precision,
    RandomState,
    distance,
    gradients_of,
    most_different,
    turn_dropout_off,
)

_N_STAGES = 3  # of a batch: as it came, again, and cut
_MOST_BATCHES = 200  # that a loop may take for one step of equal batches
_MOST_NOISE = 0.1


class Step:
    """One step, computed in three stages. Its results are (loss, gradients)."""

    def __init__(self) -> None:
        self.results: list[tuple[float, list[Any]]] = []

    def compared(self, kind: str) -> tuple[str, float]:
        """Return (what differs, or "" if nothing does; the largest difference of a cut result), as
        shares of the results. `kind` names the numbers in which it was computed.
        """
        import torch

        losses = [[torch.tensor([loss], dtype=torch.float64)] for loss, _ in self.results]
        gradients = [each for _, each in self.results]
        if not gradients[0]:
            return "no gradient was there when its optimizer stepped", 0.0
        noise = max(distance(losses[0], losses[1]), distance(gradients[0], gradients[1]))
        if noise > _MOST_NOISE:
            return "two computations of one step differ by %.0f%%" % (100 * noise), noise
        of_loss, of_gradients = distance(losses[0], losses[2]), distance(gradients[0], gradients[2])
        most = most_different(kind, noise)
        if of_loss > most:
            return (
                "its loss depends on padding: it differs by %.2g where that is cut" % of_loss,
                of_loss,
            )
        if of_gradients > most:
            why = "its gradients depend on padding: they differ by %.2g where that is cut"
            return why % of_gradients, of_gradients
        return "", max(of_loss, of_gradients)


class LoopCheck:
    """Gives a loop the same batch again and again, until it has made a step of it in each stage.

    A loop, or what prepares its loader, may have read a batch ahead: a step that has another batch
    does not count. Optimizers are held back.
    """

    def __init__(
        self,
        model: Any,
        optimizers: Sequence[Any],
        batches: Sequence[tuple[Any, Any]],
        widths_of: Callable[[Any], list[int]],
        end: Callable[[str, float], None],
    ) -> None:
        """Check each of the batches, (as it came, cut). `widths_of` says what a model is given of
        one; `end` is called with what differs and by how much.
        """
        groups = [group for each in optimizers for group in each.param_groups]
        self._parameters = [each for group in groups for each in group["params"]]
        self._end = end
        self._stages = [[full, full, cut] for full, cut in batches]
        self._widths = [[widths_of(each) for each in stages] for stages in self._stages]
        self._steps = [Step() for _ in batches]
        self._number = self._given = 0  # of the batch; how many were given for its stage
        self._is_pure, self._n_batches, self._loss = True, 0, 0.0  # of the step until now
        self._precision, self._state = Precision(model), RandomState(model)
        turn_dropout_off(model)
        for optimizer in optimizers:
            optimizer.step = self._held

    @property
    def _stage(self) -> int:
        return len(self._steps[self._number].results)

    def next_batch(self) -> Any:
        """Return the next batch for the loop: a copy, since a loop may change it."""
        self._given += 1
        if self._given > _MOST_BATCHES:
            self._stop("its loop does not make a step of equal batches", 0.0)
        return copy.deepcopy(self._stages[self._number][self._stage])

    def note_batch(self, widths: list[int]) -> None:
        """Note the widths of the forwards of a backward."""
        self._n_batches += 1
        self._is_pure &= widths == self._widths[self._number][self._stage]

    def note_loss(self, loss: Any) -> None:
        """Note what a backward begins with."""
        tensors = loss if isinstance(loss, (list, tuple)) else [loss]
        self._loss += sum(float(each.detach().double().sum()) for each in tensors)

    def _held(self, closure: Any = None) -> Any:
        """Stand in for the `step` of an optimizer."""
        value = None if closure is None else closure()
        if self._n_batches:  # else a second optimizer in the same step
            step = self._steps[self._number]
            if self._is_pure:
                step.results.append((self._loss, gradients_of(self._parameters)))
                self._given = 0
                if len(step.results) == _N_STAGES:
                    self._number += 1
            self._is_pure, self._n_batches, self._loss = True, 0, 0.0
            if self._number == len(self._steps):
                self._finish()
            self._state.restore()
        return value

    def _finish(self) -> None:
        compared = [each.compared(self._precision.kind) for each in self._steps]
        reasons = [why for why, _ in compared if why]
        self._stop(reasons[0] if reasons else "", max(apart for _, apart in compared))

    def _stop(self, why_not: str, apart: float) -> None:
        self._precision.remove()
        self._end(why_not, apart)


def check_trainer(
    model: Any, batches: Sequence[tuple[Any, Any]], compute: Callable[[Any], float]
) -> tuple[str, float]:
    """Check batches, (as it came, cut) each, with what a Trainer computes of one: `compute` runs a
    forward and a backward and returns the loss. Return (what differs, by how much).
    """
    seen, state = Precision(model), RandomState(model)
    turn_dropout_off(model)
    steps = []
    for full, cut in batches:
        steps.append(Step())
        for batch in (full, full, cut):
            model.zero_grad(set_to_none=True)
            state.restore()
            loss = compute(copy.deepcopy(batch))
            steps[-1].results.append((loss, gradients_of(list(model.parameters()))))
    seen.remove()
    compared = [each.compared(seen.kind) for each in steps]
    reasons = [why for why, _ in compared if why]
    return (reasons[0] if reasons else ""), max(apart for _, apart in compared)
