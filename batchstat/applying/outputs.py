"""Compares what the forwards of a batch return with what they return of it cut."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .cutting import arrays_by_place, replaced
from .step_state import RandomState, distance, without_dropout


class Checked(NamedTuple):
    """A batch that is checked."""

    full: Any  # as the loader handed it out
    cut: Any
    widths: Mapping[int, int]  # those that a model is given of it -> those of it cut
    real: Any  # (rows, width of the cut batch) where it has tokens
    # What tells that a forward computes the batch, and that it computes the cut one.
    signs: tuple[Any, Any]


class Outputs:
    """Compares what forwards return with what they return of the batch cut, without gradients.

    Both are computed beside the forward of the loop, and before it: that leaves what it keeps in
    the module, such as the loss of a router.
    """

    def __init__(self, model: Any) -> None:
        self.expected: Checked | None = None  # the batch that is computed; None where it is cut
        self.apart, self.n_compared = 0.0, 0
        self._is_inside, self._hook = False, None
        with contextlib.suppress(TypeError):  # before torch 2.0 a hook gets no arguments by name
            self._hook = model.register_forward_pre_hook(self._compare, with_kwargs=True)

    def remove(self) -> None:
        """Compare no more."""
        if self._hook is not None:
            self._hook.remove()

    def _compare(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if self.expected is None or self._is_inside or not torch.is_grad_enabled():
            return
        if not _holds(self.expected.full, (args, kwargs)):  # one that was read ahead
            return
        self._is_inside = True
        try:
            apart = outputs_apart(module, args, kwargs, self.expected)
        finally:
            self._is_inside = False
        self.n_compared += apart is not None
        self.apart = max(self.apart, apart or 0.0)


def outputs_apart(module: Any, args: Any, kwargs: Any, batch: Checked) -> float | None:
    """Return the largest distance of an output of a forward from that of the batch cut; None
    without any that can be compared.
    """
    import torch

    outputs: list[Any] = []
    state = RandomState(module)
    # Lightning gives a module that DDP wraps a `forward` for the next call alone.
    own = [(each, each.__dict__["forward"]) for each in module.modules() if "forward" in vars(each)]
    with torch.no_grad(), without_dropout(module.modules()):
        for widths in ({}, batch.widths):
            given, named = (_narrowed(each, widths) for each in (args, kwargs))
            try:
                outputs.append(module(*given, **named))
            finally:
                state.restore()
                for each, forward in own:
                    each.forward = forward
    return max(
        (distance([a], [b]) for a, b in _pairs(outputs[0], outputs[1], batch.real)), default=None
    )


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
