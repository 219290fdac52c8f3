"""The Trainer of transformers: what it says of itself, and its loop without computing."""

from __future__ import annotations

import json
import sys
from typing import Any

from .arguments import WholeNumbers
from .forwards import Forward
from .patches import Patches
from .recorder import Recorder

LIBRARIES = ("transformers", "trl", "accelerate", "datasets", "torch")
"""Libraries whose rules are known."""
_LOSSES = ("compute_loss", "training_step", "get_batch_samples")
_NO_IDS = (
    "the batches of its Trainer hold no token ids, which it makes where it computes, as by "
    "generating: run it without --dry-run"
)
_NOT_DONE = ("_clip_grad_norm", "_save_checkpoint", "save_model", "evaluate", "log")
"""What a Trainer does beside training, whatever a callback asks for."""
_BATCH_SIZE = "per_device_train_batch_size"
_LOADERS = ("get_train_dataloader", "_get_train_sampler", "_get_dataloader")


def is_library(module: str) -> bool:
    """Return whether a module belongs to one of the libraries whose rules are known."""
    return module.partition(".")[0] in LIBRARIES


def overridden(target: Any, names: tuple[str, ...]) -> list[str]:
    """Return the methods of an object that its libraries do not define, by their names."""
    overrides = []
    for name in names:
        method = vars(target).get(name) or getattr(type(target), name, None)
        # A decorator of the library's may wrap it.
        module = getattr(method, "__module__", None) or ""
        if method is not None and not is_library(module):
            overrides.append(name)
    return overrides


def own_loss(trainer: Any) -> list[str]:
    """Return what of the loss is not that of the Trainer or of SFTTrainer, by name."""
    names = overridden(trainer, _LOSSES)
    module = getattr(type(trainer).compute_loss, "__module__", "")
    if module.startswith("trl.") and not module.endswith("sft_trainer"):
        names.append(f"{type(trainer).__name__}'s")  # of preferences or rewards, not of tokens
    if getattr(trainer, "compute_loss_func", None) is not None:
        names.append("compute_loss_func")
    return names


def own_loader(trainer: Any) -> list[str]:
    """Return what of the training loader is the user's own, by name."""
    return overridden(trainer, _LOADERS)


def facts_of(trainer: Any) -> dict[str, Any]:
    """Return what a Trainer says of itself; nothing of it is changed."""
    kinds = [each.__name__ for each in type(trainer.args).__mro__]
    accelerator = getattr(trainer, "accelerator", None)
    own = getattr(trainer.args, "world_size", 1)
    config = getattr(getattr(trainer, "model", None), "config", None)
    data = trainer.train_dataset
    # Arguments hold what JSON has no form for, such as a path.
    arguments = json.loads(json.dumps(trainer.args.to_dict(), default=str))
    # One process with several devices, as in a notebook, gives each its part of a batch.
    size = getattr(trainer, "_train_batch_size", arguments[_BATCH_SIZE])
    arguments[_BATCH_SIZE] = int(size)
    return {
        "kind": type(trainer).__name__,
        "framework": "trl" if "SFTConfig" in kinds else "transformers",
        "arguments": arguments,
        "arguments_class": type(trainer.args).__name__,
        "world_size": int(getattr(accelerator, "num_processes", 0) or own),
        "own_loss": own_loss(trainer),
        # Which samples meet in a batch; a stream comes as it comes.
        "samples_by_arguments": not own_loader(trainer) and hasattr(data, "__len__"),
        "multiple": int(getattr(trainer.data_collator, "pad_to_multiple_of", None) or 1),
        "has_decoder": bool(getattr(config, "is_encoder_decoder", False)),
        "takes_count": bool(getattr(trainer, "model_accepts_loss_kwargs", False)),
    }


def patch_trainer(module: Any, recorder: Recorder, patches: Patches) -> None:
    """See a Trainer begin; in a dry run, take the computing out of its loop."""

    def train(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.has_trainer = True
        tokenizer = getattr(self, "processing_class", getattr(self, "tokenizer", None))
        recorder.forwards.pad_token_id = getattr(tokenizer, "pad_token_id", None)
        version = getattr(sys.modules["transformers"], "__version__", "")
        recorder.safely(lambda: recorder.begin({"version": version, **facts_of(self)}))
        if not recorder.orders.is_dry:
            return original(self, *args, **kwargs)
        _without_computing(self, module, recorder, patches)
        original(self, *args, **kwargs)
        # It ended before an epoch did.
        return recorder.stop("%d steps were read, none was computed" % recorder.steps)

    def training_step(
        original: Any, self: Any, model: Any, inputs: Any, *given: Any, **named: Any
    ) -> Any:
        # By its place in Trainer's own loop; an override may pass it by name.
        count = given[0] if given else named.get("num_items_in_batch")
        recorder.is_step_counted = count is not None
        recorder.forwards.labels = inputs.get("labels") if hasattr(inputs, "get") else None
        try:
            return original(self, model, inputs, *given, **named)
        finally:
            recorder.forwards.labels = None

    patches.wrap(module.Trainer, "train", train)
    # Trainer.__init__ makes a repository on the Hub where push_to_hub is set.
    if recorder.orders.is_dry and hasattr(module.Trainer, "init_hf_repo"):
        patches.replace(module.Trainer, "init_hf_repo", lambda _: lambda *_, **__: None)
    patches.wrap(module.Trainer, "training_step", training_step)


def _without_computing(trainer: Any, module: Any, recorder: Recorder, patches: Patches) -> None:
    """Let a Trainer go through an epoch of its own loop, which decides everything, and note what
    it would compute. What it does beside training is off.
    """
    import torch

    args, handler = trainer.args, trainer.callback_handler
    # evaluation_strategy is the name in older versions of transformers.
    evaluates = "eval_strategy" if hasattr(args, "eval_strategy") else "evaluation_strategy"
    off = dict.fromkeys(("eval_on_start", "load_best_model_at_end", "push_to_hub"), False)
    for name in ("save_strategy", evaluates):
        # An enumeration of the installed transformers, which may have a class for each.
        off[name] = type(getattr(args, name))("no")
    for name, value in {**off, "skip_memory_metrics": True}.items():
        if hasattr(args, name):
            patches.replace(args, name, lambda _, value=value: value)

    def training_step(
        _original: Any, self: Any, model: Any, inputs: Any, *given: Any, **named: Any
    ) -> Any:
        count = given[0] if given else named.get("num_items_in_batch")
        known = recorder.forwards.model_of(model)
        numbers = WholeNumbers(inputs)
        if not numbers.hold_ids:
            recorder.refuse(_NO_IDS)
        forward = Forward(known, numbers, recorder.forwards.clock.now())
        recorder.is_step_counted = count is not None
        forward.is_counted = count is not None and known.uses_count
        recorder.note([forward])
        return torch.zeros((), device=self.args.device)

    # That of its own class: a subclass may have one of its own.
    patches.wrap(type(trainer), "training_step", training_step)
    for name in _NOT_DONE:
        if hasattr(trainer, name):
            patches.replace(type(trainer), name, lambda _: lambda *_, **__: None)

    def on_epoch_end(*_: Any, **__: Any) -> None:
        recorder.stop("an epoch was read, nothing was computed")

    ending = type("EpochEnd", (module.TrainerCallback,), {"on_epoch_end": on_epoch_end})
    # A dry run trains nothing, and is not to show up in Weights & Biases or MLflow.
    silent = [each for each in handler.callbacks if not _reports(each)]
    patches.replace(handler, "callbacks", lambda _: [ending(), *silent])


def _reports(callback: Any) -> bool:
    """Return whether a callback sends what it sees somewhere, as those of integrations do."""
    return type(callback).__module__.startswith("transformers.integrations")
