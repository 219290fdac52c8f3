"""The checks of a dry run: the same step is computed as its batches came, again, and cut."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .cutting import Cut, arrays_by_place
from .outputs import Checked, Outputs
from .step_state import (
    LEAST,
    Precision,
    RandomState,
    all_agree,
    all_modules,
    distance,
    gradients_of,
    without_dropout,
)

_MOST_BATCHES = 200  # that a loop may take for one step of equal batches
_MOST_NOISE = 0.1
_SMALLEST = 1e-300  # instead of 0, to divide by
_FACTOR = 10  # how much more than two computations of the same a cut one may differ
_PIPELINES = {"PipelineEngine", "PipelineModule", "PipelineStage", "DistributedModel"}
_PARALLEL = {"tp": "tensor parallel", "cp": "context parallel", "sp": "sequence parallel"}


class Found(NamedTuple):
    """What checks have found: `apart` is the largest difference of a result, as a share of it."""

    why_not: str  # what differs; empty if nothing does
    apart: float
    outputs: int  # forwards whose outputs were compared
    ways: Sequence[tuple[str, float]]  # (what differs, by how much) where the step is regrouped


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


class Stage(NamedTuple):
    """Batches of which a step is computed."""

    batches: Sequence[Any]
    signs: Sequence[Any]  # what tells that a forward computes each of them
    expected: Checked | None = None  # the batch whose outputs are compared


class CheckedStep:
    """One step, computed as its batches come, again, and in other ways."""

    def __init__(self, today: Stage, others: Sequence[Stage]) -> None:
        self.stages = [today, today, *others]
        self._first: tuple[float, list[Any]] | None = None
        self._apart: list[tuple[float, float]] = []  # of the loss and gradients of later stages

    @classmethod
    def cut(cls, batch: Checked) -> CheckedStep:
        """Return a step of one batch, which then comes cut."""
        full = Stage([batch.full], batch.signs[:1], batch)
        return cls(full, [Stage([batch.cut], batch.signs[1:])])

    @property
    def n_added(self) -> int:
        """How many stages were computed."""
        return (self._first is not None) + len(self._apart)

    def add(self, loss: float, gradients: list[Any]) -> None:
        """Add what the next stage came to."""
        if self._first is None:
            self._first = loss, gradients
        else:
            apart = abs(loss - self._first[0]) / max(abs(self._first[0]), _SMALLEST)
            self._apart.append((apart, distance(self._first[1], gradients)))

    def compared(self, number: int, kind: str, with_loss: bool) -> tuple[str, float]:
        """Return (what differs in another way, by its number; by how much). `kind` names the kind
        of floats. A loss is compared `with_loss`: of a regrouped step, a rank has other samples.
        """
        assert self._first is not None
        if not self._first[1]:
            return "no gradient was there when its optimizer stepped", 0.0
        noise, apart = max(self._apart[0]), self._apart[1 + number]
        if noise > _MOST_NOISE:
            return "two computations of one step differ by %.0f%%" % (100 * noise), noise
        most = max(_FACTOR * noise, LEAST[kind])
        for what, each in (("loss", apart[0] if with_loss else 0.0), ("gradients", apart[1])):
            if each > most:
                return "its %s, by %.2g of it" % (what, each), each
        return "", max(apart) if with_loss else apart[1]


class Checks:
    """What a dry run checks: steps, and the outputs of their forwards. The last step is one whose
    samples are `regrouped`, if there are ways to do that.
    """

    def __init__(
        self,
        model: Any,
        parameters: Sequence[Any],
        cut: Sequence[Checked],
        regrouped: CheckedStep | None,
    ) -> None:
        self._cut = [CheckedStep.cut(each) for each in cut]
        self._regrouped, self._parameters = regrouped, parameters
        self._steps = [*self._cut, *([] if regrouped is None else [regrouped])]
        self._precision, self._state = Precision(model), RandomState(model)
        self._outputs = Outputs(model)
        self._dropout = without_dropout(all_modules())
        self._dropout.__enter__()

    @property
    def is_done(self) -> bool:
        """Whether all stages of all steps were computed."""
        return all(step.n_added == len(step.stages) for step in self._steps)

    @property
    def stage(self) -> Stage:
        """What is to be computed."""
        step = next(each for each in self._steps if each.n_added < len(each.stages))
        return step.stages[step.n_added]

    def batch(self, number: int) -> Any:
        """Return a batch of the stage, which come in turn: a copy, since a loop may change it."""
        stage = self.stage
        self._outputs.expected = stage.expected
        return copy.deepcopy(stage.batches[number % len(stage.batches)])

    def add(self, loss: float) -> None:
        """Add a loss and the gradients that are there, and put the random numbers back."""
        step = next(each for each in self._steps if each.n_added < len(each.stages))
        step.add(loss, gradients_of(self._parameters))
        if step is self._regrouped and step.n_added > 2:
            why, _ = step.compared(step.n_added - 3, self._precision.kind, with_loss=False)
            if all_agree(not why):  # the first way that holds saves most
                del step.stages[step.n_added :]
        self.restore()

    def restore(self) -> None:
        """Put random numbers and buffers back, as they were before the step."""
        self._state.restore()

    def finish(self) -> Found:
        """Return what was found."""
        self._precision.remove()
        self._outputs.remove()
        self._dropout.__exit__(None, None, None)
        kind = self._precision.kind
        compared = [each.compared(0, kind, with_loss=True) for each in self._cut]
        why_not = next((why for why, _ in compared if why), "")
        if why_not.startswith("its "):
            why_not = "padding changes %s: it may carry loss, or count in a mean" % why_not
        apart = self._outputs.apart
        if not why_not and apart > LEAST[kind]:
            why_not = "padding changes its outputs: cut, they differ by %.2g" % apart
        step = self._regrouped
        n_ways = 0 if step is None else len(step.stages) - 2
        ways = [step.compared(n, kind, with_loss=False) for n in range(n_ways)] if step else []
        apart = max([apart, *(each for _, each in compared)])
        return Found(why_not, apart, self._outputs.n_compared, ways)


class LoopCheck:
    """Gives a loop the batches of a stage again and again, until it has made a step of them, for
    each stage.

    A loop, or what prepares its loader, may have read a batch ahead, and it may step on the last
    batches of an epoch: a step that has another batch, or another number of batches than its first
    ones, does not count. Optimizers are held back.
    """

    def __init__(
        self,
        checks: Checks,
        optimizers: Sequence[Any],
        accumulation: int,
        end: Callable[[Found], None],
    ) -> None:
        """Check steps of `accumulation` batches, 0 where that varies."""
        self._checks, self._accumulation, self._end = checks, accumulation, end
        self._n_given = 0  # batches that were given for a stage
        self._signs: list[Any] = []  # of the batches of the step until now
        self._loss = 0.0
        for optimizer in optimizers:
            optimizer.step = self._held

    def next_batch(self) -> Any:
        """Return the next batch for the loop."""
        self._n_given += 1
        if self._n_given > _MOST_BATCHES:
            self._end(Found("its loop makes no step of the batches that it is given", 0.0, 0, []))
        return self._checks.batch(self._n_given - 1)

    def note_batch(self, sign: Any) -> None:
        """Note what tells the batch of a backward from others."""
        self._signs.append(sign)

    def note_loss(self, loss: Any) -> None:
        """Note what a backward begins with."""
        tensors = loss if isinstance(loss, (list, tuple)) else [loss]
        self._loss += sum(float(each.detach().double().sum()) for each in tensors)

    def _held(self, closure: Any = None) -> Any:
        """Stand in for the `step` of an optimizer."""
        value = None if closure is None else closure()
        if self._signs:  # else a second optimizer in the same step
            signs = self._checks.stage.signs
            n_times, rest = divmod(len(self._signs), len(signs))
            is_whole = not rest and self._accumulation in (0, len(self._signs))
            is_stage = is_whole and Counter(self._signs) == Counter([*signs] * n_times)
            # The batches that a rank has read ahead may be those of its next stage, too.
            if all_agree(is_stage):
                self._checks.add(self._loss)
                self._n_given = 0
            self._signs, self._loss = [], 0.0
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


def why_not_regrouped(model: Any) -> str:
    """Return why the steps of a model stay as they are, whatever they hold: in bfloat16 the part of
    a router hides behind the rounding. Empty if they may be regrouped.
    """
    for module in model.modules():
        config = getattr(module, "config", None)
        for each in (config, getattr(config, "text_config", None)):
            if getattr(each, "output_router_logits", None) is True:
                return "the loss of its router is of all rows of a batch: output_router_logits"
    return ""


def check_trainer(checks: Checks, model: Any, compute: Callable[[Sequence[Any]], float]) -> Found:
    """Check steps by what a Trainer computes of their batches: forwards and backwards."""
    while not checks.is_done:
        model.zero_grad(set_to_none=True)
        n_batches = len(checks.stage.batches)
        checks.add(compute([checks.batch(number) for number in range(n_batches)]))
    return checks.finish()
