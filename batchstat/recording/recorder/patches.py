"""Where the recorder is called: functions that are replaced for as long as it records."""

from __future__ import annotations

import functools
from typing import Any

from .recorder import Recorder


class Patches:
    """Replaced functions, which can all be put back."""

    def __init__(self) -> None:
        """Begin without any."""
        self._undo: list[Any] = []

    def replace(self, owner: Any, name: str, make: Any) -> None:
        """Replace an attribute by what `make` returns for the original."""
        own = vars(owner).get(name, self)  # an inherited one is deleted again
        setattr(owner, name, make(getattr(owner, name)))
        if own is self:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, own))

    def wrap(self, owner: Any, name: str, around: Any) -> None:
        """Replace a function by a call of `around` with it and its arguments."""

        def make(original: Any) -> Any:
            @functools.wraps(original)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                return around(original, *args, **kwargs)

            return wrapped

        self.replace(owner, name, make)

    def also(self, undo: Any) -> None:
        """Note what else is to be undone."""
        self._undo.append(undo)

    def restore(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            self._undo.pop()()


def patch_torch(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """See forwards, backwards, steps and loaders.

    `Module.__call__` is replaced, and no global hook registered: such hooks get no keyword
    arguments, and any of them ends the shortcut that dynamo takes, which cost 0.5 ms per step of a
    model of 215 modules.
    """
    from torch.utils.data import dataloader

    forwards = recorder.forwards
    call = torch.nn.Module.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if forwards.is_busy:
            return call(self, *args, **kwargs)
        return forwards.call(call, self, args, kwargs)

    def zero_grad(original: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.safely(recorder.zeroed)
        return original(*args, **kwargs)

    patches.replace(torch.nn.Module, "__call__", lambda _: __call__)
    patches.wrap(torch.autograd, "backward", recorder.backward)
    patches.wrap(torch.nn.Module, "zero_grad", zero_grad)
    _patch_optimizers(torch, recorder, patches)
    _patch_scaler(torch, recorder, patches)
    _patch_loaders(dataloader._BaseDataLoaderIter, recorder, patches)
    forwards.is_busy = False


def _patch_optimizers(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """See the steps of all optimizers; before torch 2.0 there is no public hook for that."""
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
    except ImportError:
        _patch_each_optimizer(torch, recorder, patches)
        return
    handle = register_optimizer_step_post_hook(
        lambda optimizer, _args, _kwargs: recorder.safely(recorder.stepped, optimizer)
    )
    patches.also(handle.remove)


def _patch_each_optimizer(torch: Any, recorder: Recorder, patches: Patches) -> None:
    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        kind = type(self)
        # Each class has a step of its own, and is only known once an optimizer of it is made.
        if "_batchstat" not in vars(kind):
            kind._batchstat = True
            patches.also(lambda: delattr(kind, "_batchstat"))
            patches.wrap(kind, "step", step)

    def step(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        recorder.safely(recorder.stepped, self)
        return made

    patches.wrap(torch.optim.Optimizer, "__init__", init)


def _patch_scaler(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """See steps that a scaler of gradients skips, since one was infinite."""

    def step(original: Any, self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = recorder.optimizers
        made = original(self, optimizer, *args, **kwargs)
        if recorder.optimizers == before and recorder.batches:
            recorder.safely(recorder.end_step, type(optimizer).__name__, True)
        return made

    # Before torch 2.3 it was for CUDA alone.
    owner = torch.amp if hasattr(getattr(torch, "amp", None), "GradScaler") else torch.cuda.amp
    patches.wrap(owner.GradScaler, "step", step)


def _patch_loaders(kind: Any, recorder: Recorder, patches: Patches) -> None:
    def next_index(original: Any, self: Any) -> Any:
        index = original(self)
        recorder.safely(recorder.loaders.asked, self, index)
        return index

    def next_batch(original: Any, self: Any) -> Any:
        data = original(self)
        recorder.safely(recorder.loaders.yielded, self, data)
        return data

    def reset(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # Before the original, which with workers asks for the first batches of the epoch.
        recorder.safely(recorder.loaders.began_again, self)
        return original(self, *args, **kwargs)

    patches.wrap(kind, "_next_index", next_index)
    patches.wrap(kind, "_reset", reset)
    patches.wrap(kind, "__next__", next_batch)


def patch_deepspeed(module: Any, recorder: Recorder, patches: Patches) -> None:
    """See steps of DeepSpeed that it skips by itself, since a gradient in 16 bits was infinite: no
    optimizer of torch hears of them.
    """

    def step(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # The engine's step is called after every batch, and steps an optimizer at a boundary alone.
        ends, before = self.is_gradient_accumulation_boundary(), recorder.optimizers
        made = original(self, *args, **kwargs)
        if ends and recorder.optimizers == before and recorder.batches:
            recorder.safely(recorder.end_step, type(self).__name__, True)
        return made

    patches.wrap(module.DeepSpeedEngine, "step", step)


def patch_dispatcher(module: Any, recorder: Recorder, patches: Patches) -> None:
    """See the loader of accelerate whose first rank reads all batches and cuts them for the others:
    only it knows sample numbers, and only of the whole.
    """

    def fetch(original: Any, self: Any, iterator: Any) -> Any:
        recorder.safely(recorder.loaders.dispatches, iterator)
        return original(self, iterator)

    def begin(original: Any, self: Any) -> Any:
        return recorder.loaders.dispatching(original(self))

    patches.wrap(module.DataLoaderDispatcher, "_fetch_batches", fetch)
    patches.wrap(module.DataLoaderDispatcher, "__iter__", begin)
