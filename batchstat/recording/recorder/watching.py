"""How a process comes to be recorded: torch and each library are patched when it imports them."""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.util
import os
import sys
from typing import Any

from .log import ranks
from .orders import Orders
from .patches import Patches, patch_deepspeed, patch_dispatcher, patch_torch
from .recorder import Recorder
from .trainers import patch_trainer

_NO_TRAINER = (
    "--no-weights is for a Trainer of transformers, whose loop needs none: this loop computes with "
    "its model; run it without --no-weights"
)


def patch_weights(module: Any, recorder: Recorder, patches: Patches) -> None:
    """With --no-weights, make `from_pretrained` of transformers return a model without weights: its
    parameters are on torch's meta device, where they take no memory, whatever a script moves it to.
    """
    if not recorder.orders.without_weights:
        return
    import torch

    def from_pretrained(_original: Any) -> Any:
        # `cls` is the class for which it is called, such as LlamaForCausalLM.
        def wrapped(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            config = kwargs.get("config")
            if config is None:
                keys = ("cache_dir", "revision", "token", "trust_remote_code", "local_files_only")
                where = {key: kwargs[key] for key in keys if key in kwargs}
                config = cls.config_class.from_pretrained(name, **where)
            # A published checkpoint may be quantized, and quantizing needs its weights.
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            with torch.device("meta"):
                model = cls(config, *args)
            model.register_forward_pre_hook(refuse)
            model.eval()  # as the original from_pretrained leaves it
            # With this argument it returns a report on the loading too, empty here.
            return (model, {}) if kwargs.get("output_loading_info") else model

        return classmethod(wrapped)

    # Before each forward of such a model: in a dry run a Trainer computes none.
    def refuse(*_: Any) -> None:
        recorder.refuse(_NO_TRAINER)

    def to(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # torch refuses to copy a tensor from the meta device, which has no numbers.
        return self if _has_no_weights(self) else original(self, *args, **kwargs)

    patches.replace(module.PreTrainedModel, "from_pretrained", from_pretrained)
    patches.wrap(torch.nn.Module, "to", to)
    patches.wrap(torch.nn.Module, "cuda", to)  # `original` is `cuda` there


def patch_prepare(module: Any, recorder: Recorder, patches: Patches) -> None:
    """With --no-weights, make accelerate leave such a model as it is on several ranks, where it
    would wrap it in DistributedDataParallel, which sends the weights of the first to the others.
    """
    if not recorder.orders.without_weights:
        return

    def prepare_model(original: Any, self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        return model if _has_no_weights(model) else original(self, model, *args, **kwargs)

    patches.wrap(module.Accelerator, "prepare_model", prepare_model)


def _has_no_weights(model: Any) -> bool:
    return any(each.is_meta for each in model.parameters())


_LIBRARIES = {
    "torch": patch_torch,
    "transformers.trainer": patch_trainer,
    "transformers.modeling_utils": patch_weights,
    "accelerate.data_loader": patch_dispatcher,
    "accelerate.accelerator": patch_prepare,
    "deepspeed.runtime.engine": patch_deepspeed,
}
"""What patches a module once it has been imported."""


def watch() -> None:
    """Record this process once it imports torch, as the environment variable BATCHSTAT_RUN says:
    `inject/sitecustomize.py` calls it when Python starts, before the command's own code.
    """
    recorder, patches = _begin(Orders.of_environment())
    recorder.may_exit = True

    def leave(original: Any, code: int) -> Any:
        recorder.close()
        return original(code)

    atexit.register(recorder.close)
    # A process that multiprocessing forks ends by os._exit, which runs no atexit.
    patches.wrap(os, "_exit", leave)
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(after_in_child=recorder.forget)


def record_here(orders: Orders) -> tuple[Recorder, Patches]:
    """Record this process from now on, for `batchstat.record`; return what it replaced, too."""
    importlib.import_module("torch")
    return _begin(orders)


def _begin(orders: Orders) -> tuple[Recorder, Patches]:
    recorder, patches = Recorder(orders), Patches()
    recorder.log.note_process("started")
    if orders.applies:
        _import_by_place("batchstat_algorithms", "planning", "algorithms")  # plans a step
        _import_by_place("batchstat_applying", "applying")
        if orders.verdict:
            applier = importlib.import_module("batchstat_applying.applier")
            recorder.applier = applier.Applier(orders.verdict, ranks)
        else:
            applier = importlib.import_module("batchstat_applying.dry_applier")
            recorder.applier = applier.DryApplier(orders.folder, orders.multiple, ranks)

    def patch(name: str, module: Any) -> None:
        if name == "torch":
            recorder.log.note_process(name)
        _LIBRARIES[name](module, recorder, patches)

    actions = {name: functools.partial(patch, name) for name in _LIBRARIES}
    # A notebook has imported most of them already; the others are patched when they are imported.
    for name in [name for name in actions if name in sys.modules]:
        actions.pop(name)(sys.modules[name])
    watcher = _Watcher(actions)
    # First, since the import system asks no further finder once one knows a module.
    sys.meta_path.insert(0, watcher)
    patches.on_restore(lambda: sys.meta_path.remove(watcher))
    return recorder, patches


def _import_by_place(name: str, *folder: str) -> None:
    """Import a package of batchstat from its folder: batchstat may not be installed. Workers that a
    loader spawns find it by this name.
    """
    if name in sys.modules:
        return
    place = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", *folder))
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(place, "__init__.py"), submodule_search_locations=[place]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


class _Watcher:
    """A finder of `sys.meta_path` that calls a function of a module once it has been imported."""

    def __init__(self, actions: dict[str, Any]) -> None:
        self._actions, self._is_looking = actions, False  # whether it is asking the other finders

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return the spec of a watched module, whose import then calls its function; else None."""
        # importlib.util.find_spec below asks all finders, this one too: None passes to the next.
        if name not in self._actions or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is None or spec.loader is None:  # not installed, or a namespace without code
            return spec
        execute = spec.loader.exec_module

        @functools.wraps(execute)
        def exec_module(module: Any) -> None:
            execute(module)
            # Only now is the module no longer watched: transformers asks for the spec of torch, to
            # see whether it is installed, and imports it later.
            action = self._actions.pop(name, None)
            try:
                if action is not None:
                    action(module)
            except Exception as error:  # the command must go on as it would without
                print("batchstat: not recording: %r" % error, file=sys.stderr)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
