"""The checks of a dry run: the same step is computed as its batches came, again, and cut."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .cutting import Cut, arrays_by_place
from .outputs import Checked, Outputs
from .step_state import (
    LEAST,
    Precision,
    RandomState,
    all_modules,
    distance,
    gradients_of,
    without_dropout,
)

_N_STAGES = 3  # of a batch: as it came, again, and cut
_MOST_BATCHES = 200  # that a loop may take for one step of equal batches
_MOST_NOISE = 0.1
_FACTOR = 10  # how much more than two computations of the same a cut one may differ
_PIPELINES = {"PipelineEngine", "PipelineModule", "PipelineStage", "DistributedModel"}
_PARALLEL = {"tp": "tensor parallel", "cp": "context parallel", "sp": "sequence parallel"}


class Found(NamedTuple):
    """What checks have found: `apart` is the largest difference of a result, as a share of it."""

    why_not: str  # what differs; empty if nothing does
    apart: float
    outputs: int  # forwards whose outputs were compared


def checked_of(full: Any, cut: Cut, given_of: Callable[[Any], tuple[list[int], Any]]) -> Checked:
    """Return a batch to check. `given_of` says what a model is given of one: the widths, and what
    tells it from others. Raises UnknownError.
    """
    narrow = cut(full)[0]
    place, value = cut.widths[0].ends[0]
    real = dict(arrays_by_place(narrow))[place] != value
    (widths, sign), (narrow_widths, narrow_sign) = given_of(full), given_of(narrow)
    known = dict(zip(widths, narrow_widths))
    return Checked(full, narrow, known, real.reshape(real.shape[0], -1), (sign, narrow_sign))


class _Step:
    """One step, computed in three stages. Its results are (loss, gradients)."""

    def __init__(self) -> None:
        self.results: list[tuple[float, list[Any]]] = []

    def compared(self, kind: str) -> tuple[str, float]:
        """Return (what differs, by how much). `kind` names the numbers that it was computed in."""
        import torch

        losses = [[torch.tensor([loss], dtype=torch.float64)] for loss, _ in self.results]
        gradients = [each for _, each in self.results]
        if not gradients[0]:
            return "no gradient was there when its optimizer stepped", 0.0
        noise = max(distance(losses[0], losses[1]), distance(gradients[0], gradients[1]))
        if noise > _MOST_NOISE:
            return "two computations of one step differ by %.0f%%" % (100 * noise), noise
        most = max(_FACTOR * noise, LEAST[kind])
        for what, each in (("loss", losses), ("gradients", gradients)):
            apart = distance(each[0], each[2])
            if apart > most:
                why = "padding changes its %s, by %.2g of it: it may carry loss, or count in a mean"
                return why % (what, apart), apart
        return "", max(distance(each[0], each[2]) for each in (losses, gradients))


class Checks:
    """What a dry run checks: steps, and the outputs of their forwards."""

    def __init__(self, model: Any, parameters: Sequence[Any], batches: Sequence[Checked]) -> None:
        self.batches, self._parameters = batches, parameters
        self._steps = [_Step() for _ in batches]
        self._precision, self._state = Precision(model), RandomState(model)
        self._outputs = Outputs(model)
        self._dropout = without_dropout(all_modules())
        self._dropout.__enter__()  # until the end of a loop's process

    @property
    def is_done(self) -> bool:
        """Whether all stages of all batches were computed."""
        return all(len(step.results) == _N_STAGES for step in self._steps)

    @property
    def now(self) -> tuple[int, bool]:
        """(the number of the batch that is to be computed, whether cut)."""
        number = next(n for n, step in enumerate(self._steps) if len(step.results) < _N_STAGES)
        return number, len(self._steps[number].results) == _N_STAGES - 1

    def next_batch(self) -> Any:
        """Return the batch that is to be computed: a copy, since a loop may change it."""
        number, is_cut = self.now
        batch = self.batches[number]
        self._outputs.expected = None if is_cut else batch
        return copy.deepcopy(batch.cut if is_cut else batch.full)

    def add(self, loss: float) -> None:
        """Add a loss and the gradients that are there, and put the random numbers back."""
        number, _ = self.now
        self._steps[number].results.append((loss, gradients_of(self._parameters)))
        self.restore()

    def restore(self) -> None:
        """Put random numbers and buffers back, as they were before the step."""
        self._state.restore()

    def finish(self) -> Found:
        """Return what was found."""
        self._precision.remove()
        self._outputs.remove()
        compared = [each.compared(self._precision.kind) for each in self._steps]
        why_not = next((why for why, _ in compared if why), "")
        apart = self._outputs.apart
        if not why_not and apart > LEAST[self._precision.kind]:
            why_not = "padding changes its outputs: cut, they differ by %.2g" % apart
        return Found(why_not, max(apart, *(each for _, each in compared)), self._outputs.n_compared)


class LoopCheck:
    """Gives a loop the same batch again and again, until it has made a step of it in each stage.

    A loop, or what prepares its loader, may have read a batch ahead: a step that has another batch
    does not count. Optimizers are held back.
    """

    def __init__(
        self,
        model: Any,
        optimizers: Sequence[Any],
        batches: Sequence[Checked],
        end: Callable[[Found], None],
    ) -> None:
        groups = [group for each in optimizers for group in each.param_groups]
        self._checks = Checks(model, [p for group in groups for p in group["params"]], batches)
        self._end, self._given = end, 0  # how many batches were given for a stage
        self._is_pure, self._n_batches, self._loss = True, 0, 0.0  # of the step until now
        for optimizer in optimizers:
            optimizer.step = self._held

    def next_batch(self) -> Any:
        """Return the next batch for the loop."""
        self._given += 1
        if self._given > _MOST_BATCHES:
            self._end(Found("its loop makes no step of equal batches", 0.0, 0))
        return self._checks.next_batch()

    def note_batch(self, sign: Any) -> None:
        """Note what tells the batch of a backward from others."""
        number, is_cut = self._checks.now
        self._n_batches += 1
        self._is_pure &= sign == self._checks.batches[number].signs[is_cut]

    def note_loss(self, loss: Any) -> None:
        """Note what a backward begins with."""
        tensors = loss if isinstance(loss, (list, tuple)) else [loss]
        self._loss += sum(float(each.detach().double().sum()) for each in tensors)

    def _held(self, closure: Any = None) -> Any:
        """Stand in for the `step` of an optimizer."""
        value = None if closure is None else closure()
        if self._n_batches:  # else a second optimizer in the same step
            if self._is_pure:
                self._checks.add(self._loss)
                self._given = 0
            self._is_pure, self._n_batches, self._loss = True, 0, 0.0
            if self._checks.is_done:
                self._end(self._checks.finish())
            self._checks.restore()
        return value


def why_left_alone(model: Any, may_be_compiled: bool) -> str:
    """Return why the batches of a model are not cut, whatever they hold; empty if they may be."""
    parameters, modules = list(model.parameters()), list(model.modules())
    kinds = {kind.__name__ for module in modules for kind in type(module).__mro__}
    compiled = any(getattr(each, "_compiled_call_impl", None) is not None for each in modules)
    if not may_be_compiled and (compiled or "OptimizedModule" in kinds):
        return "each new width compiles its model again: --pad-to-multiple-of N limits them"
    if not may_be_compiled and any(each.device.type == "xla" for each in parameters):
        return "XLA compiles each new width: --pad-to-multiple-of N limits them"
    if kinds & _PIPELINES:
        return "its model is parallel over a pipeline, whose stages expect one width"
    meshes = [getattr(each, "device_mesh", None) for each in parameters]
    names = {n for mesh in meshes if mesh is not None for n in mesh.mesh_dim_names or ()}
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    shared = getattr(state, "_shared_state", {}) or {}
    sizes = shared.get("parallelism_config")
    names |= {n for n in _PARALLEL if (getattr(sizes, n + "_size", None) or 1) > 1}
    for name in sorted(names & set(_PARALLEL)):
        return "its ranks share the rows of a batch: %s" % _PARALLEL[name]
    return ""


def check_trainer(model: Any, batches: Sequence[Checked], compute: Callable[[Any], float]) -> Found:
    """Check batches by what a Trainer computes of one: a forward and a backward."""
    checks = Checks(model, list(model.parameters()), batches)
    while not checks.is_done:
        model.zero_grad(set_to_none=True)
        checks.add(compute(checks.next_batch()))
    return checks.finish()
