"""Functions of torch, accelerate and DeepSpeed that call the recorder, in place of `original`."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder


class Patches:
    """Replaced functions, which can all be put back."""

    def __init__(self) -> None:
        self._undo: list[Any] = []

    def replace(self, owner: Any, name: str, make: Any) -> None:
        """Set `owner.name` to `make(original)`, where `original` is its value until now."""
        # From vars, since getattr unwraps a class method or a static method. Where the owner only
        # inherits it, `self` stands in, which is never the value.
        before = vars(owner).get(name, self)
        setattr(owner, name, make(getattr(owner, name)))
        if before is self:  # deleting the new one shows the inherited one again
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def wrap(self, owner: Any, name: str, around: Any) -> None:
        """Replace the function `owner.name`: a call `f(x)` becomes `around(original, x)`."""

        def make(original: Any) -> Any:
            @functools.wraps(original)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                return around(original, *args, **kwargs)

            return wrapped

        self.replace(owner, name, make)

    def on_restore(self, undo: Any) -> None:
        """Call `undo` too when everything is put back."""
        self._undo.append(undo)

    def restore(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            self._undo.pop()()


def patch_torch(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """Make torch tell the recorder of every forward, backward, optimizer step and loader."""
    from torch.utils.data import dataloader

    forwards = recorder.forwards
    original_call = torch.nn.Module.__call__

    # Runs for each module inside a model too, so that it does as little as can be. No global hook:
    # these get no keyword arguments, and any ends the shortcut that dynamo takes, which cost 0.5 ms
    # per step of a model of 215 modules.
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if forwards.is_busy:  # inside another forward or a backward, or nothing is recorded
            return original_call(self, *args, **kwargs)
        return forwards.call(original_call, self, args, kwargs)

    # Of a class whose `forward` a loop calls by itself, as `model.forward(**batch)`.
    def forward(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if forwards.is_busy:
            return original(self, *args, **kwargs)
        return forwards.call(original, self, args, kwargs)

    def zero_grad(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.safely(recorder.note_zero_grad, self)
        return original(self, *args, **kwargs)

    patches.replace(torch.nn.Module, "__call__", lambda _: __call__)
    # Tensor.backward calls it as an attribute of torch.autograd, so that one patch sees both.
    patches.wrap(torch.autograd, "backward", recorder.backward)
    for owner in (torch.nn.Module, torch.optim.Optimizer):
        patches.wrap(owner, "zero_grad", zero_grad)
    _patch_optimizers(torch, recorder, patches)
    _patch_scaler(torch, recorder, patches)
    if recorder.applier is not None:  # inside of what notes the batches, so that cut ones are seen
        recorder.applier.patch(torch, patches, lambda: recorder.batches_in_step)
    patch_loaders(dataloader._BaseDataLoaderIter, recorder, patches)
    forwards.see_forward = lambda kind: patches.wrap(kind, "forward", forward)
    forwards.record(True)


def _patch_optimizers(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """Note every step of every optimizer, by the hooks that torch has for that since 2.0."""
    hooks = sys.modules["torch.optim.optimizer"]
    has_hooks = hasattr(hooks, "register_optimizer_step_post_hook")
    wrapped: set[type] = set()

    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        recorder.optimizers.is_one_made = True
        original(self, *args, **kwargs)
        # Before torch 2.0, each class defines `step`, wrapped when its first optimizer is made.
        if not has_hooks and type(self) not in wrapped:
            wrapped.add(type(self))
            patches.wrap(type(self), "step", step)

    def step(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.is_stepping = True
        result = original(self, *args, **kwargs)
        recorder.safely(recorder.note_optimizer_step, self)
        return result

    patches.wrap(torch.optim.Optimizer, "__init__", init)
    if has_hooks:
        before = hooks.register_optimizer_step_pre_hook(
            lambda *_: setattr(recorder, "is_stepping", True)
        )
        after = hooks.register_optimizer_step_post_hook(
            lambda self, _args, _kwargs: recorder.safely(recorder.note_optimizer_step, self)
        )
        patches.on_restore(before.remove)
        patches.on_restore(after.remove)


def _patch_scaler(torch: Any, recorder: Recorder, patches: Patches) -> None:
    """End steps that torch's GradScaler skips, since a gradient in mixed precision is infinite."""

    def step(original: Any, self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        steps_before = recorder.optimizer_steps
        result = original(self, optimizer, *args, **kwargs)
        _end_skipped(recorder, steps_before, optimizer)
        return result

    # torch.amp.GradScaler is new in torch 2.3; before it there was one for CUDA alone.
    owner = torch.amp if hasattr(getattr(torch, "amp", None), "GradScaler") else torch.cuda.amp
    patches.wrap(owner.GradScaler, "step", step)


def _end_skipped(recorder: Recorder, steps_before: int, owner: Any) -> None:
    # No optimizer tells of the step. Without a batch, another optimizer has ended this one.
    if recorder.optimizer_steps == steps_before and recorder.batches_in_step:
        recorder.safely(recorder.end_step, type(owner).__name__, skipped=True)


def patch_loaders(iterator_class: Any, recorder: Any, patches: Patches) -> None:
    """Note what loaders of torch draw and yield: in `recorder.loaders`."""

    def reporting(note: Any) -> Any:
        def around(original: Any, self: Any) -> Any:
            if note == recorder.loaders.note_yielded and recorder.loaders.is_injected(self):
                return recorder.loaders.injected[1]()
            try:
                value = original(self)
            except StopIteration:
                recorder.safely(recorder.loaders.note_ended, self)
                raise
            recorder.safely(note, self, value)
            return value

        return around

    # Begins an epoch: with persistent_workers=True one iterator serves them all.
    def reset(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # Before the original, which with workers asks for the first batches of the epoch.
        recorder.safely(recorder.loaders.note_new_epoch, self)
        return original(self, *args, **kwargs)

    # Asks the sampler for the sample numbers of a batch; with workers, several batches ahead.
    patches.wrap(iterator_class, "_next_index", reporting(recorder.loaders.note_asked))
    patches.wrap(iterator_class, "_reset", reset)
    patches.wrap(iterator_class, "__next__", reporting(recorder.loaders.note_yielded))


def patch_deepspeed(module: Any, recorder: Recorder, patches: Patches) -> None:
    """End steps that a loss scaler of DeepSpeed's own skips, since a gradient is infinite."""

    def step(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # Loops call it after every batch; it steps the optimizer at the boundary, the last one of a
        # step, or else a gradient was infinite. Asked before, since the original counts the batch.
        is_last, steps_before = self.is_gradient_accumulation_boundary(), recorder.optimizer_steps
        recorder.is_stepping = is_last  # it may clear the gradients of a step that it skips
        result = original(self, *args, **kwargs)
        recorder.is_stepping = False
        if is_last:
            _end_skipped(recorder, steps_before, self)
        return result

    patches.wrap(module.DeepSpeedEngine, "step", step)


def patch_dispatcher(module: Any, recorder: Recorder, patches: Patches) -> None:
    """Note what accelerate's DataLoaderDispatcher hands out (`dispatch_batches=True`): its first
    rank reads every batch, so that it alone sees sample numbers, and sends each rank a part.
    """

    # Reads the batch that is cut into parts, on the first rank out of `iterator`.
    def fetch(original: Any, self: Any, iterator: Any) -> Any:
        recorder.safely(recorder.loaders.mark_dispatched, iterator)
        return original(self, iterator)

    def begin(original: Any, self: Any) -> Any:
        return recorder.loaders.yield_noted(original(self), self)

    patches.wrap(module.DataLoaderDispatcher, "_fetch_batches", fetch)
    patches.wrap(module.DataLoaderDispatcher, "__iter__", begin)
