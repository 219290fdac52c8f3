"""How a process comes to be recorded: when it has imported torch, and not before."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import sys
from typing import Any

from .orders import Orders
from .patches import Patches, patch_deepspeed, patch_dispatcher, patch_torch
from .recorder import Recorder
from .trainers import patch_trainer
from .weights import patch_prepare, patch_weights

_TORCH = "torch"
_LIBRARIES = {
    "transformers.trainer": patch_trainer,
    "transformers.modeling_utils": patch_weights,
    "accelerate.data_loader": patch_dispatcher,
    "accelerate.accelerator": patch_prepare,
    "deepspeed.runtime.engine": patch_deepspeed,
}
"""What is patched of a library once it has been imported."""


def watch() -> None:
    """Record this process, as its environment says, once it imports torch."""
    recorder, patches = Recorder(Orders.of_environment()), Patches()
    recorder.log.note_process("started")

    def on_torch(module: Any) -> None:
        recorder.log.note_process("torch")
        patch_torch(module, recorder, patches)

    def leave(original: Any, code: int) -> Any:
        recorder.close()
        return original(code)

    atexit.register(recorder.close)
    # A process that was forked, as by multiprocessing, runs no atexit.
    patches.wrap(os, "_exit", leave)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forget)
    # First, since the search ends at the finder that knows a module.
    sys.meta_path.insert(0, _Watcher({_TORCH: on_torch, **_patching(recorder, patches)}))


def record_here(orders: Orders) -> tuple[Recorder, Patches]:
    """Record this process from now on, as a notebook does; `torch` is imported if need be."""
    import torch

    recorder, patches = Recorder(orders), Patches()
    for what in ("started", "torch"):
        recorder.log.note_process(what)
    patch_torch(torch, recorder, patches)
    then = _patching(recorder, patches)
    # A notebook has imported most of them already.
    for name in [name for name in then if name in sys.modules]:
        then.pop(name)(sys.modules[name])
    watcher = _Watcher(then)
    sys.meta_path.insert(0, watcher)
    patches.also(lambda: sys.meta_path.remove(watcher))
    return recorder, patches


def _patching(recorder: Recorder, patches: Patches) -> dict[str, Any]:
    """Return what is to be done with each library."""
    return {
        name: functools.partial(patch, recorder=recorder, patches=patches)
        for name, patch in _LIBRARIES.items()
    }


class _Watcher:
    """Calls a function when a module has been imported. It stays until that has happened: libraries
    look whether torch is there, by `find_spec`, before they import it.
    """

    def __init__(self, then: dict[str, Any]) -> None:
        self._then, self._is_looking = then, False

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return the spec of a module that is watched; None for any other."""
        # importlib.util.find_spec asks all finders again, this one too.
        if name not in self._then or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        @functools.wraps(execute)
        def exec_module(module: Any) -> None:
            execute(module)
            then = self._then.pop(name, None)
            try:
                if then is not None:
                    then(module)
            except Exception as error:  # the command must go on as it would without
                print("batchstat: not recording: %r" % error, file=sys.stderr)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
