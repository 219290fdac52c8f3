"""The Trainer of transformers: what it says of itself, and its loop without computing."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import weakref
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from .arguments import WholeNumbers, as_array, is_stream, length_of, sign_of
from .forward import Forward
from .patches import Patches
from .recorder import Recorder

LIBRARIES = ("transformers", "trl", "accelerate", "datasets", "torch")  # whose rules are known
# Methods of a Trainer that decide its loss; and which samples share a batch.
_LOSSES = ("compute_loss", "training_step", "get_batch_samples")
_LOADERS = ("get_train_dataloader", "_get_train_sampler", "_get_dataloader")
_NO_IDS = (
    "the batches of its Trainer hold no token ids, which it makes where it computes, as by "
    "generating: run it without --dry-run"
)
# Trainers of TRL that train a chosen and a rejected answer, by a loss that asks for no other.
_OF_PAIRS = ("DPOTrainer", "CPOTrainer", "ORPOTrainer", "RewardTrainer")
# Methods of a Trainer that do nothing in a dry run, whatever a callback asks for.
_TURNED_OFF = ("_clip_grad_norm", "_save_checkpoint", "save_model", "evaluate", "log")
_BATCH_SIZE = "per_device_train_batch_size"


def is_library(module: str) -> bool:
    """Return whether a module belongs to one of the libraries whose rules are known."""
    return module.partition(".")[0] in LIBRARIES


def overridden(target: Any, names: tuple[str, ...]) -> list[str]:
    """Return the methods, of those named, that are the user's own and not of a known library."""
    overrides = []
    for name in names:
        # A script may also set one on the object itself, which comes before that of its class.
        method = vars(target).get(name) or getattr(type(target), name, None)
        # The module of the method, not of the class: a subclass may inherit it.
        module = getattr(method, "__module__", None) or ""
        if method is not None and not is_library(module):
            overrides.append(name)
    return overrides


def own_loss(trainer: Any) -> list[str]:
    """Return the names of what replaces the token loss of Trainer or SFTTrainer."""
    names = overridden(trainer, _LOSSES)
    module = getattr(type(trainer).compute_loss, "__module__", "")
    # TRL's other trainers, such as DPOTrainer, have a loss of preferences or rewards.
    if module.startswith("trl.") and not module.endswith("sft_trainer"):
        names.append(f"{type(trainer).__name__}'s")  # shown as "its own (DPOTrainer's)"
    if getattr(trainer, "compute_loss_func", None) is not None:
        names.append("compute_loss_func")
    return names


def own_loader(trainer: Any) -> list[str]:
    """Return the methods of the training loader that are the user's own, by name."""
    return overridden(trainer, _LOADERS)


def _hidden_in(arguments: Any) -> Any:
    """Return arguments without secrets, by batchstat's own module, loaded by its place: batchstat
    may not be installed where the command runs.
    """
    package = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    module: Any = ModuleType("batchstat_hidden_secrets")
    file = os.path.join(package, "hidden_secrets.py")
    SourceFileLoader(module.__name__, file).exec_module(module)
    return module.hidden_in(arguments)


def _rows_together(trainer: Any) -> str:
    """Return what the rows of a sample are: a "pair", a "group", or "" where nothing tells it."""
    of_trl = {each.__name__ for each in type(trainer).__mro__ if each.__module__.startswith("trl.")}
    if of_trl.intersection(_OF_PAIRS):
        return "pair"
    is_group = bool(of_trl) and hasattr(trainer.args, "num_generations")
    return "group" if is_group else ""


def facts_of(trainer: Any) -> dict[str, Any]:
    """Return what a Trainer says of itself, for its line in a recording, without secrets: by the
    attributes of `TrainerObject`, and the "multiple" to which the collator rounds widths up.
    """
    is_of_trl = any(each.__name__ == "SFTConfig" for each in type(trainer.args).__mro__)
    accelerator = getattr(trainer, "accelerator", None)
    world_size = getattr(trainer.args, "world_size", 1)
    config = getattr(getattr(trainer, "model", None), "config", None)
    data, collator = trainer.train_dataset, trainer.data_collator
    columns = getattr(data, "column_names", None) or ()  # of a data set of datasets
    # default_data_collator is a function, the others are objects of a class.
    collator = collator if hasattr(collator, "__name__") else type(collator)
    # As JSON has them: what it has no form for, such as a path, becomes a string.
    arguments = _hidden_in(json.loads(json.dumps(trainer.args.to_dict(), default=str)))
    # With several GPUs in one process, the Trainer reads batches for all of them, of
    # `_train_batch_size`; the argument is the size of the part for one GPU.
    arguments[_BATCH_SIZE] = int(getattr(trainer, "_train_batch_size", arguments[_BATCH_SIZE]))
    # `accelerate launch` may shard a model of which the arguments say nothing.
    state = getattr(accelerator, "state", None)
    if getattr(state, "fsdp_plugin", None) is not None:
        arguments["fsdp"] = arguments.get("fsdp") or True
    stage = getattr(getattr(state, "deepspeed_plugin", None), "zero_stage", None)
    if stage is not None:
        arguments["deepspeed"] = {"zero_optimization": {"stage": int(stage)}}
    return {
        "kind": type(trainer).__name__,
        "framework": "trl" if is_of_trl else "transformers",
        "arguments": arguments,
        "arguments_class": type(trainer.args).__name__,
        # A Trainer without an accelerator, as in old transformers, has it in its arguments alone.
        "world_size": int(getattr(accelerator, "num_processes", 0) or world_size),
        "own_loss": own_loss(trainer),
        # Whether the arguments decide which samples share a batch: not for a stream, nor where the
        # token ids to group by come into being later, as those of DPOTrainer.
        "samples_by_arguments": not own_loader(trainer)
        and hasattr(data, "__len__")
        and not is_stream(data)
        and (not columns or "input_ids" in columns),
        "stream": is_stream(data),
        "collator": "%s.%s" % (collator.__module__, collator.__name__),
        "labels": [name for name in ("labels", "label", "label_ids") if name in columns],
        "multiple": int(getattr(trainer.data_collator, "pad_to_multiple_of", None) or 1),
        "has_decoder": bool(getattr(config, "is_encoder_decoder", False)),
        "takes_count": bool(getattr(trainer, "model_accepts_loss_kwargs", False)),
        "together": _rows_together(trainer),
        "samples": length_of(data),  # rows of its data set, packed ones for a sample each
    }


def patch_trainer(module: Any, recorder: Recorder, patches: Patches) -> None:
    """Note when a Trainer of transformers begins, what it says of itself, and each of its steps."""

    def begin(trainer: Any) -> None:
        # A weak reference: the recorder of a command must not keep the model in memory.
        recorder.trainer = weakref.ref(trainer)
        # transformers 4.46 renamed `tokenizer` to `processing_class`.
        tokenizer = getattr(trainer, "processing_class", getattr(trainer, "tokenizer", None))
        recorder.forwards.pad_token_id = getattr(tokenizer, "pad_token_id", None)
        version = getattr(sys.modules["transformers"], "__version__", "")
        recorder.safely(lambda: recorder.begin_trainer({"version": version, **facts_of(trainer)}))

    def train(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        begin(self)
        if not recorder.orders.is_dry:
            return original(self, *args, **kwargs)
        _without_computing(self, module, recorder, patches)
        original(self, *args, **kwargs)
        # Where the end of an epoch did not end the command (below), as max_steps came first: what
        # follows would use a model that was not trained.
        return recorder.stop("%d steps were read, none was computed" % recorder.steps)

    def training_step(
        original: Any, self: Any, model: Any, inputs: Any, *positional: Any, **keywords: Any
    ) -> Any:
        if recorder.trainer is None:  # a callback records only after `train` was called
            begin(self)
        recorder.is_step_counted = _is_counted(*positional, **keywords)
        recorder.forwards.labels = inputs.get("labels") if hasattr(inputs, "get") else None
        try:
            return original(self, model, inputs, *positional, **keywords)
        finally:
            recorder.forwards.labels = None

    patches.wrap(module.Trainer, "train", train)
    # With push_to_hub, Trainer.__init__ makes a repository by it: a dry run must not.
    if recorder.orders.is_dry and hasattr(module.Trainer, "init_hf_repo"):
        patches.replace(module.Trainer, "init_hf_repo", lambda _: lambda *_, **__: None)
    patches.wrap(module.Trainer, "training_step", training_step)


def _is_counted(num_items_in_batch: Any = None, *_: Any, **__: Any) -> bool:
    # The trained tokens of the whole step: the Trainer's own loop passes them by position, an
    # override may pass them by name.
    return num_items_in_batch is not None


def _without_computing(trainer: Any, module: Any, recorder: Recorder, patches: Patches) -> None:
    """Make a Trainer go through its loop without computing, and note each batch it would train."""
    import torch

    args, handler = trainer.args, trainer.callback_handler
    # evaluation_strategy is the name in older versions of transformers.
    evaluation = "eval_strategy" if hasattr(args, "eval_strategy") else "evaluation_strategy"
    # Values that arguments of the Trainer get, to turn off what is no training.
    settings = dict.fromkeys(("eval_on_start", "load_best_model_at_end", "push_to_hub"), False)
    for name in ("save_strategy", evaluation):
        # "no" as the enumeration of the installed transformers has it: each key may have its own.
        settings[name] = type(getattr(args, name))("no")
    for name, value in {**settings, "skip_memory_metrics": True}.items():
        # Some are new, such as eval_on_start. `_` is the value until now.
        if hasattr(args, name):
            patches.replace(args, name, lambda _, value=value: value)

    def training_step(
        original: Any, self: Any, model: Any, inputs: Any, *positional: Any, **keywords: Any
    ) -> Any:
        model_facts = recorder.forwards.model_of(model)
        numbers = WholeNumbers(inputs)
        # Such as the prompts that GRPOTrainer of TRL generates answers to.
        if not numbers.hold_ids:
            recorder.refuse(_NO_IDS)
        forward = Forward(model_facts, numbers, recorder.forwards.clock.now())
        recorder.is_step_counted = _is_counted(*positional, **keywords)
        forward.is_counted = recorder.is_step_counted and model_facts.uses_count
        if recorder.applier is not None:
            parts = model_facts.read(numbers.converted(as_array))

            def compute(batches: Any) -> float:  # what the checks compute of a step
                step = functools.partial(original, self, **keywords)
                return computed_step(self, step, model, batches, bool(positional))

            recorder.applier.note(None, inputs, parts, model_facts.pad_token_id, compute)
        recorder.note_batch([forward])
        return torch.zeros((), device=self.args.device)  # the loss, which the loop adds up

    # In the class of this trainer, since a subclass may override it.
    patches.wrap(type(trainer), "training_step", training_step)
    # Each becomes a method that does nothing: the outer lambda gets the original method.
    for name in _TURNED_OFF:
        if hasattr(trainer, name):
            patches.replace(type(trainer), name, lambda _: lambda *_, **__: None)

    # A dry run, which trains nothing, is not to show up in Weights & Biases or MLflow.
    reporting = "transformers.integrations"
    quiet = [each for each in handler.callbacks if not type(each).__module__.startswith(reporting)]
    reader = _epoch_reader(trainer, module, recorder, patches)
    # First, to end the epoch before they do, and last, to go on after they have stopped.
    patches.replace(handler, "callbacks", lambda _: [reader, *quiet, reader])


def makes_tail(trainer: Any) -> bool:
    """Return whether a Trainer makes a step of the last batches of an epoch, fewer than a step's:
    it does since it counts the tokens of a step.
    """
    return hasattr(trainer, "get_batch_samples")


def computed_step(
    trainer: Any, training_step: Any, model: Any, batches: list[Any], is_counted: bool
) -> float:
    """Compute the batches of a step as a Trainer does, up to its gradients; return their losses. A
    version that counts the trained tokens of a step gets them, if `is_counted`.
    """
    given: list[Any] = []
    if is_counted and makes_tail(trainer):
        trainer.current_gradient_accumulation_steps = len(batches)
        take = trainer.get_batch_samples
        # The device came later than the count.
        has_device = "device" in inspect.signature(take).parameters
        device = (trainer.args.device,) if has_device else ()
        batches, *given = take(iter(batches), len(batches), *device)
    return sum(float(training_step(model, each, *given)) for each in batches)


def why_too_old() -> str:
    """Return why padding of a Trainer is not cut; empty for a version whose steps are known."""
    version = sys.modules["transformers"].__version__
    is_known = tuple(map(int, version.split(".")[:2])) >= (4, 40)
    return "" if is_known else "transformers %s is older than 4.40" % version


def _epoch_reader(trainer: Any, module: Any, recorder: Recorder, patches: Patches) -> Any:
    """Return a callback that ends the command after an epoch, and not before."""

    # Beyond max_steps, some schedules of the learning rate refuse another step.
    def on_train_begin(*_: Any, lr_scheduler: Any = None, **__: Any) -> None:
        if lr_scheduler is not None:
            patches.replace(lr_scheduler, "step", lambda _: lambda *_, **__: None)

    # The rest of the epoch is read where max_steps, or a callback, ends the training within it.
    def on_step_end(_self: Any, _args: Any, _state: Any, control: Any, **given: Any) -> None:
        if length_of(given.get("train_dataloader")) is not None:
            control.should_training_stop = False

    def on_epoch_end(_self: Any, _args: Any, state: Any, *_: Any, **given: Any) -> None:
        # A stream may have no end.
        is_cut = state.global_step >= state.max_steps > 0
        if is_cut and length_of(given.get("train_dataloader")) is None:
            recorder.why_partly = "max_steps=%d ends a stream without a length" % state.max_steps
        if recorder.applier is not None:
            facts = recorder.forwards.model_of(given["model"])
            recorder.forwards.record(False)

            def given_of(data: Any) -> Any:
                return sign_of(facts.read(WholeNumbers(data).converted(as_array)))

            if why := why_too_old():
                recorder.applier.write(why_not=why)
            else:
                accumulation = trainer.args.gradient_accumulation_steps
                tail = makes_tail(trainer)
                recorder.applier.check_trainer(given["model"], given_of, accumulation, tail)
        recorder.stop("an epoch was read, nothing was computed")

    events = {each.__name__: each for each in (on_train_begin, on_step_end, on_epoch_end)}
    return type("EpochReader", (module.TrainerCallback,), events)()
