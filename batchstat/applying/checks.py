"""The checks of a dry run: the same step is computed as its batches came, again, and cut."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .cutting import Cut, arrays_by_place, replaced

_N_STAGES = 3  # of a batch: as it came, again, and cut
_MOST_BATCHES = 200  # that a loop may take for one step of equal batches
_MOST_NOISE = 0.1
_FACTOR = 10  # how much more than two computations of the same a cut one may differ
# By how much results may differ, as a share of their norm, by the precision of the computation: a
# sum in another sequence does as much.
_LEAST = {"float64": 1e-10, "float32": 1e-5, "tf32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2}


class Found(NamedTuple):
    """What checks have found: `apart` is the largest difference of a result, as a share of it."""

    why_not: str  # what differs; empty if nothing does
    apart: float
    outputs: int  # forwards whose outputs were compared


class Checked(NamedTuple):
    """A batch that is checked."""

    full: Any  # as the loader handed it out
    cut: Any
    widths: Mapping[int, int]  # those that a model is given of it -> those of it cut
    real: Any  # (rows, width of the cut batch) where it has tokens
    # What tells that a forward computes the batch, and that it computes the cut one.
    signs: tuple[Any, Any]


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
        most = max(_FACTOR * noise, _LEAST[kind])
        for what, each in (("loss", losses), ("gradients", gradients)):
            apart = distance(each[0], each[2])
            if apart > most:
                return "padding changes its %s: cut, it differs by %.2g" % (what, apart), apart
        return "", max(distance(each[0], each[2]) for each in (losses, gradients))


class Checks:
    """What a dry run checks: steps, and the outputs of their forwards."""

    def __init__(self, model: Any, parameters: Sequence[Any], batches: Sequence[Checked]) -> None:
        self.batches, self._parameters = batches, parameters
        self._steps = [_Step() for _ in batches]
        self._precision, self._state = _Precision(model), _RandomState(model)
        self._outputs = _Outputs(model, self._state)
        _turn_dropout_off(model)

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
        if not why_not and apart > _LEAST[self._precision.kind]:
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


def check_trainer(model: Any, batches: Sequence[Checked], compute: Callable[[Any], float]) -> Found:
    """Check batches by what a Trainer computes of one: a forward and a backward."""
    checks = Checks(model, list(model.parameters()), batches)
    while not checks.is_done:
        model.zero_grad(set_to_none=True)
        checks.add(compute(checks.next_batch()))
    return checks.finish()


class _RandomState:
    """The random numbers to come, of torch, NumPy and Python, and the buffers of a model."""

    def __init__(self, model: Any) -> None:
        import torch

        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else numpy.random.get_state()
        self._buffers = [(each, each.detach().clone()) for each in model.buffers()]

    def restore(self) -> None:
        """Put all of it back."""
        import torch

        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        for buffer, value in self._buffers:
            # A cache of positions may have grown. By `data`: a backward that is to come may ask
            # whether a buffer has changed.
            if buffer.shape == value.shape and not torch.equal(buffer, value):
                buffer.data.copy_(value)


def _turn_dropout_off(model: Any) -> None:
    """Set every probability of dropout in a model to 0: `eval()` would hide what batch norm does,
    and noise on embeddings.
    """
    for module in model.modules():
        is_dropout = "Drop" in type(module).__name__
        for owner in (module, getattr(module, "config", None)):
            for name, value in list(getattr(owner, "__dict__", {}).items()):
                names_one = "drop" in name.lower() or (is_dropout and name == "p")
                if names_one and type(value) is float:
                    with contextlib.suppress(Exception):  # a configuration may refuse values
                        setattr(owner, name, 0.0)


class _Outputs:
    """Compares what forwards return with what they return of the batch cut, without gradients."""

    def __init__(self, model: Any, state: _RandomState) -> None:
        self.expected: Checked | None = None  # the batch that is computed; None where it is cut
        self.apart, self.n_compared = 0.0, 0
        self._state, self._is_inside, self._hooks = state, False, []
        with contextlib.suppress(
            TypeError
        ):  # before torch 2.0 a hook is given no arguments by name
            self._hooks = [model.register_forward_hook(self._compare, with_kwargs=True)]

    def remove(self) -> None:
        """Compare no more."""
        while self._hooks:
            self._hooks.pop().remove()

    def _compare(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        import torch

        if self.expected is None or self._is_inside or not torch.is_grad_enabled():
            return
        if not _holds(self.expected.full, (args, kwargs)):  # one that was read ahead
            return
        widths, real = self.expected.widths, self.expected.real
        args, kwargs = (_narrowed(each, widths) for each in (args, kwargs))
        self._is_inside = True
        try:
            with torch.no_grad():
                cut = module(*args, **kwargs)
        finally:
            self._is_inside = False
            self._state.restore()
        pairs = list(_pairs(output, cut, real))
        self.n_compared += bool(pairs)
        self.apart = max([self.apart, *(distance([one], [other]) for one, other in pairs)])


def _holds(full: Any, arguments: Any) -> bool:
    """Return whether an argument has the numbers of an array of a batch, or the first ones."""
    given = [array for _, array in arrays_by_place(arguments, anywhere=True)]
    return any(
        one.shape[0] == array.shape[0]
        and not one.is_floating_point()
        and bool((array[:, : one.shape[1]] == one.to(array.device)).all())
        for _, array in arrays_by_place(full)
        if array.ndim == 2
        for one in given
        if one.ndim == 2 and one.shape[1] <= array.shape[1]
    )


def _narrowed(data: Any, widths: Mapping[int, int]) -> Any:
    """Return arguments of a model with every axis but the first cut from these widths."""
    new = {}
    for place, array in arrays_by_place(data, anywhere=True):
        kept = [*array.shape[:1], *(widths.get(size, size) for size in array.shape[1:])]
        if array.ndim and kept != [*array.shape]:
            new[place] = array[tuple(slice(size) for size in kept)].contiguous()
    return replaced(data, new) if new else data


def _pairs(full: Any, cut: Any, real: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the arrays of two outputs, at real tokens where their shapes show where these are."""
    others = dict(arrays_by_place(cut, anywhere=True))
    for place, array in arrays_by_place(full, anywhere=True):
        other = others.get(place)
        if other is None or not array.is_floating_point():
            continue
        one = array.detach()[tuple(slice(size) for size in other.shape)] if array.ndim else array
        is_of_tokens = other.ndim > 1 and other.shape[:2] == real.shape
        if one.shape != other.shape:
            continue
        if is_of_tokens:
            mask = real.to(other.device)
            yield one[mask], other[mask]
        elif array.shape == other.shape and other.shape[:1] in ((), real.shape[:1]):
            yield one.detach(), other


class _Precision:
    """The least precise numbers that a model is computed in, seen inside its forwards: autocast may
    begin there, as in a model that accelerate has prepared.
    """

    def __init__(self, model: Any) -> None:
        self.kind = "float64"
        own = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
        self._hooks = [each.register_forward_pre_hook(self._look) for each in own]

    def _look(self, module: Any, _args: Any) -> None:
        self.kind = max(self.kind, _kind_of(module), key=lambda kind: _LEAST[kind])

    def remove(self) -> None:
        """Look no more."""
        while self._hooks:
            self._hooks.pop().remove()


def _kind_of(module: Any) -> str:
    import torch

    if torch.is_autocast_enabled():  # of CUDA
        kinds = {str(torch.get_autocast_gpu_dtype())}
    elif getattr(torch, "is_autocast_cpu_enabled", bool)():
        kinds = {str(torch.get_autocast_cpu_dtype())}
    else:
        kinds = {str(each.dtype) for each in module.parameters(recurse=False)}
    names = {each.rpartition(".")[2] for each in kinds}
    if torch.cuda.is_initialized() and torch.backends.cuda.matmul.allow_tf32:
        names.add("tf32")
    # Weights of fewer bits are computed in the numbers of what they take.
    return max(names & _LEAST.keys(), key=lambda kind: _LEAST[kind], default="float64")


def gradients_of(parameters: Sequence[Any]) -> list[Any]:
    """Return copies, on the processor, of the gradients of parameters that have one; of sharded
    ones, what this rank has.
    """
    found = [each.grad for each in parameters if each.grad is not None]
    return [getattr(each, "_local_tensor", each).detach().to("cpu", copy=True) for each in found]


def distance(values: Sequence[Any], others: Sequence[Any]) -> float:
    """Return the norm of the difference of arrays, as a share of the norm of the first ones;
    infinite where shapes differ or a number is none.
    """
    if [each.shape for each in values] != [each.shape for each in others]:
        return float("inf")
    pairs = [(a.double(), b.double()) for a, b in zip(values, others)]
    norm = sum(float((a * a).sum()) for a, _ in pairs) ** 0.5
    apart = sum(float(((a - b) ** 2).sum()) for a, b in pairs) ** 0.5
    if norm != norm or apart != apart:
        return float("inf")
    return apart / norm if norm else (0.0 if not apart else float("inf"))
