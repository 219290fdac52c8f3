"""`TrainingArguments` of transformers, as JSON (`to_json_string`) or YAML. Checked against
transformers 5.24 with accelerate 1.15: `Trainer._get_train_sampler` chooses the sampler and
`Trainer.set_initial_training_values` counts steps in src/transformers/trainer.py,
`TrainingArguments.get_warmup_steps` counts those of the warm-up in training_args.py, and
accelerate's `BatchSamplerShard` distributes batches in src/accelerate/data_loader.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchstat.findings import Finding
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.rules import Batching, Schedule, TrainingRules
from batchstat.trainers.base.setup import Framework
from batchstat.trainers.transformers.keys import (
    GROUPED,
    REBALANCED,
    SEQUENTIAL,
    TrainingArguments,
    keys_of_version_4,
)
from batchstat.words import short

_SUCCESSORS = {
    "group_by_length": " in favour of train_sampling_strategy: group_by_length",
    "warmup_ratio": " in favour of warmup_steps, which may be a share",
}
"""For keys of version 4 that decide about batches or steps: what version 5 has instead."""

_ACCELERATOR: dict[str, tuple[tuple[bool | None, ...], str]] = {
    "split_batches": (
        (False,),
        "remove it, and divide per_device_train_batch_size by the number of ranks",
    ),
    "dispatch_batches": ((None, False), "remove it"),
    "even_batches": ((True, False), "set it to true or false"),
    "use_seedable_sampler": ((True,), "remove it"),
    "non_blocking": ((), ""),
    "use_configured_state": ((), ""),
    "gradient_accumulation_kwargs": ((), ""),
}
"""Keys of `accelerator_config`: the values modelled (empty: all), and what to do about others."""


def read_arguments(config: TrainingArguments) -> TrainingRules:
    """Return what `TrainingArguments` mean. TRL starts from these rules and replaces some."""
    config.check_modelled()
    sampling = sampling_strategy(config)
    across_ranks = config.average_tokens_across_devices
    settings: dict[str, Any] = {
        "gradient_accumulation_steps": config.gradient_accumulation_steps,
        # The Trainer seeds its sampler with data_seed, and without it with seed.
        "seed": config.seed if config.data_seed is None else config.data_seed,
        "drop_last": config.dataloader_drop_last,
        # A loss is divided by the trained tokens of the step: those of all ranks, or of its own.
        "loss": "num-items-in-batch" if across_ranks else "num-items-per-rank",
    }
    is_even = has_even_batches(config)
    if not is_even and sampling == GROUPED:
        raise config.error(
            "accelerator_config.even_batches=false with group_by_length is not modelled: remove one"
        )
    strategy = "hf-trainer"
    if sampling == GROUPED:
        strategy = "hf-group-by-length"
    elif sampling == SEQUENTIAL or not is_even:
        # hf-trainer always shuffles and always fills up the ranks; static takes both as settings.
        strategy = "static"
        settings |= {
            "order": "file" if sampling == SEQUENTIAL else "torch",
            "distribute": "batches",
            "remainder": "fill" if is_even else "uneven",
        }
    return TrainingRules(
        config=config,
        batching=Batching(
            strategy=StrategySpec.of(strategy, batch_size=config.per_device_train_batch_size),
            settings=settings,
        ),
        schedule=_schedule_of(config),
        warnings=tuple(_warnings_of(config)),
    )


def has_even_batches(config: TrainingArguments) -> bool:
    """Return whether ranks get equally many full batches: accelerate repeats samples for that."""
    accelerator = config.accelerator_config or {}
    # accelerate tests the value for truth, so that 0 is false.
    return bool(config.dataloader_drop_last or accelerator.get("even_batches", True))


def sampling_strategy(config: TrainingArguments) -> str:
    """Return how the Trainer orders samples: RANDOM, SEQUENTIAL or GROUPED. Raises OptionError: a
    sampling that is not modelled, or that another key contradicts.
    """
    _check_accelerator(config)
    if config.parallelism_config:
        raise config.error(
            "parallelism_config is not modelled: remove it, and pass the number of "
            "data-parallel ranks with --world-size"
        )
    sampling: str = config.train_sampling_strategy
    if sampling == REBALANCED:
        raise config.error(
            f"train_sampling_strategy={sampling} is not modelled: record what it trains "
            "on with batchstat run --dry-run, or set another"
        )
    if config.group_by_length:  # of transformers 4, before there was train_sampling_strategy
        if sampling == SEQUENTIAL:
            raise config.error(
                f"group_by_length=true contradicts train_sampling_strategy={sampling}: remove one"
            )
        return GROUPED
    return sampling


def _check_accelerator(config: TrainingArguments) -> None:
    """Raise OptionError for an unknown key of `accelerator_config`, or a value not modelled."""
    accelerator = config.accelerator_config or {}
    for key, value in accelerator.items():
        if key not in _ACCELERATOR:
            raise config.error(f"accelerator_config has an unknown key {key!r}: remove it")
        modelled, remedy = _ACCELERATOR[key]
        if modelled and value not in modelled:
            raise config.error(f"accelerator_config.{key}={short(value)} is not modelled: {remedy}")
    # Its num_steps is a second place to set the accumulation, beside the Trainer's own key.
    name = "accelerator_config.gradient_accumulation_kwargs"
    kwargs = accelerator.get("gradient_accumulation_kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise config.error(f"{name}={short(kwargs)}: must be a table of keys")
    if "num_steps" in kwargs:
        raise config.error(
            f"{name}.num_steps={short(kwargs['num_steps'])} is not modelled: set "
            "gradient_accumulation_steps instead"
        )


def _schedule_of(config: TrainingArguments) -> Schedule:
    """Return how long the Trainer trains. Raises OptionError for max_steps=0."""
    warmup = config.warmup_steps
    # In version 4, warmup_ratio counts where warmup_steps is 0; in 5, warmup_steps may be a share.
    if "warmup_ratio" in config.given_keys and not warmup:
        warmup = config.warmup_ratio
    steps = config.max_steps  # -1, the default, leaves it to num_train_epochs
    if steps == 0:
        raise config.error("max_steps=0 is not modelled: set 1 or more, or -1 for epochs")
    return Schedule(
        epochs=config.num_train_epochs, max_steps=steps if steps > 0 else None, warmup=warmup
    )


def _warnings_of(config: TrainingArguments) -> Iterator[Finding]:
    """Yield the warnings of a report: about an old key, and about what differs between runs."""
    old_keys = sorted(config.given_keys & keys_of_version_4())
    if old_keys:
        yield Finding(
            "config/old-key",
            f"{old_keys[0]} is a key of transformers 4; these are the rules of transformers "
            f"{TRAINING_ARGUMENTS.version}, which refuses it{_SUCCESSORS.get(old_keys[0], '')}",
        )
    if sampling_strategy(config) == GROUPED:
        yield Finding(
            "order/unseeded-groups",
            "group_by_length draws unseeded random numbers: which samples share a batch, and so "
            "some percent of the total tokens, differ between runs; the numbers of batches and "
            "steps do not",
        )
    if config.auto_find_batch_size:
        yield Finding(
            "config/batch-size-search",
            "auto_find_batch_size may halve the batch size when memory runs out",
        )


def alternatives(config: TrainingArguments) -> Iterator[dict[str, Any]]:
    """Yield what may save compute: grouping by length, as the configuration's version calls it."""
    if config.train_sampling_strategy == GROUPED or config.group_by_length:
        return
    # Version 5 refuses keys of version 4, and has train_sampling_strategy.
    has_key_of_4 = not config.given_keys.isdisjoint(keys_of_version_4())
    is_version_4 = has_key_of_4 and "train_sampling_strategy" not in config.given_keys
    yield {"group_by_length": True} if is_version_4 else {"train_sampling_strategy": GROUPED}


OWN_KEYS = {"batch_size": "per_device_train_batch_size", "drop_last": "dataloader_drop_last"}


def weight_remedy(settings: ResolvedSettings, version: str) -> str:
    """Return, in words, what makes all trained tokens of a step weigh the same, and exists in a
    version of transformers, by default that of these rules; else an empty text.
    """
    release = tuple(map(int, re.findall(r"\d+", version)[:2])) or (5, 0)
    if settings.loss == "num-items-per-rank" and release >= (4, 47):
        return "average_tokens_across_devices=True repairs it"
    remedies = []
    accumulated = settings.gradient_accumulation_steps
    if settings.loss == "axolotl" and settings.world_size == 1 and accumulated > 1:
        rows = settings.batch_size * accumulated  # the whole step, whose samples stay
        remedies.append(f"per_device_train_batch_size={rows}, gradient_accumulation_steps=1")
    if settings.loss == "axolotl" and release >= (4, 46):
        remedies.append("a compute_loss_func that divides by num_items_in_batch")
    return f"{' or '.join(remedies)} repairs it" if remedies else ""


TRAINING_ARGUMENTS = Framework(
    title="transformers' TrainingArguments",
    python="TrainingArguments",
    config=TrainingArguments,
    own_keys=OWN_KEYS,
    # Who names only `static` may use any trainer: most people use this one.
    stands_for=("static", "hf-trainer"),
    weight_remedy=weight_remedy,
    read=read_arguments,
    alternatives=alternatives,
)
