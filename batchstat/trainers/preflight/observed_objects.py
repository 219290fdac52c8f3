"""What a trainer's object or a loader trains on, read from it without training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.planning.rng import unchanged_random_state
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.recording.collated import collated_batches
from batchstat.recording.prepared_batches import (
    batches_of_rows,
    faults_of_padding,
    padding_before_batching,
)
from batchstat.recording.prepared_rows import PreparedRows
from batchstat.recording.recorder.arguments import is_stream, length_of
from batchstat.recording.rows_together import with_rows_by_size
from batchstat.recording.trainer_object import TrainerObject, check_versions, read_trainer
from batchstat.simulation.meters.token_weights import UNKNOWN
from batchstat.trainers.base.files import setup_of
from batchstat.trainers.base.samples import keep_all
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.preflight.observed import (
    APPLY_TO_LOADER,
    APPLY_TO_TRAINER,
    LOADER,
    PAD_LESS,
    WITHOUT_COUNT,
    Observed,
    WholeEpoch,
    observe_batches,
    profile_of,
)
from batchstat.trainers.registry import CONFIGURATIONS
from batchstat.words import counted, short


def observe(
    target: Any, settings: Mapping[str, Any], steps: int | None, pad_token_id: int | None
) -> Observed:
    """Return what an object trains on, without training. Raises InputError: another object, no
    batch, or a version of a library that is too old.
    """
    # Attributes that any Trainer of transformers has: the library need not be imported for that.
    names = ("args", "train_dataset", "data_collator", "get_train_dataloader")
    if all(hasattr(target, name) for name in names):
        check_versions()
        return _observe_trainer(target, settings, steps, pad_token_id)
    if not hasattr(target, "__iter__"):
        raise InputError(
            f"{short(target)} is neither a trainer's configuration, a Trainer nor a loader of "
            "batches",
            "pass the file, the object or the DataLoader",
        )
    kind, checked = type(target).__name__, Settings(**settings)
    # A step has these batches on all ranks together.
    batches_per_step = checked.gradient_accumulation_steps * checked.world_size
    limit = None if steps is None else steps * batches_per_step
    with unchanged_random_state(target):
        batches = collated_batches(kind, target, limit=limit, pad_token_id=pad_token_id)
    # A loader of a batch_sampler has its batch size there.
    size = getattr(target, "batch_size", None)
    size = size or getattr(getattr(target, "batch_sampler", None), "batch_size", None)
    batches = with_rows_by_size(batches, size)
    return observe_batches(
        batches,
        kind=kind,
        setup=replace(LOADER, path=Path(kind)),
        settings={"loss": UNKNOWN, **settings},
        repair=APPLY_TO_LOADER if hasattr(target, "collate_fn") else PAD_LESS,
        warnings=_part_warnings(steps),
        is_stream=is_stream(getattr(target, "dataset", None)),
        # A DistributedSampler knows its rank; any other loader counts as that of rank 0.
        rank=getattr(getattr(target, "sampler", None), "rank", 0),
    )


def _observe_trainer(
    target: Any, settings: Mapping[str, Any], steps: int | None, pad_token_id: int | None
) -> Observed:
    """Return what a Trainer trains on: its prepared rows, else what its own loader yields."""
    trainer = read_trainer(target)
    setup = setup_of_trainer(trainer)
    # The trainer's settings, overridden by those of the caller.
    loss = loss_of(trainer, is_counted=trainer.takes_count)
    own: dict[str, Any] = {"world_size": trainer.world_size, "loss": loss}
    if any(each.id == "config/unknown-keys" for each in setup.warnings):
        why = setup.warnings[0].message.rpartition(": ")[2]
        trainer = replace(trainer, rows=None, why_loader=why)
        own["gradient_accumulation_steps"] = trainer.arguments["gradient_accumulation_steps"]
    else:
        # The strategy for a data set that is packed already has no batch size: take the argument.
        own["batch_size"] = setup.config.values()["per_device_train_batch_size"]
    merged = {**own, **settings}
    if trainer.rows is not None:
        return _observe_rows(trainer, trainer.rows, setup, merged)
    # Its loader must be read.
    accumulation = {**setup.batching.settings, **merged}.get("gradient_accumulation_steps", 1)
    with unchanged_random_state():
        loader = target.get_train_dataloader()
        # A stream may have no end: a Trainer trains on one only with max_steps, which ends it here.
        n_batches, most_steps = length_of(loader), steps
        if n_batches is None and steps is None:
            most_steps = setup.schedule.max_steps
        with unchanged_random_state(loader):
            collated = collated_batches(
                trainer.kind,
                loader,
                limit=most_steps and most_steps * accumulation,
                pad_token_id=pad_token_id,
                has_decoder=trainer.has_decoder,
            )
    batch_size = trainer.arguments["per_device_train_batch_size"]
    collated = with_rows_by_size(collated, batch_size, trainer.together)
    warnings, epoch = [*_part_warnings(most_steps)], None
    if n_batches is not None and len(collated.batches.batch_offsets) <= n_batches:
        is_known = merged["world_size"] == 1 and not collated.batches.packs_rows
        samples = length_of(target.train_dataset) if is_known else None
        epoch = WholeEpoch(-(-n_batches // accumulation), n_batches, samples)
    if (ranks := merged["world_size"]) > 1:
        one_rank = f"the loader of one rank was read: {ranks} train, each with batches of its own"
        warnings.append(Finding("recording/missing-ranks", one_rank))
    # The report is on what was read: the batches of this rank.
    merged |= {"world_size": 1, "max_length": int(collated.samples.lengths.max())}
    return observe_batches(
        collated,
        kind=trainer.kind,
        setup=setup,
        settings=merged,
        repair=APPLY_TO_TRAINER,
        apply=APPLY_TO_TRAINER,
        trainer=trainer,
        is_stream=trainer.stream,
        warnings=tuple(warnings),
        epoch=epoch,
    )


def _observe_rows(
    trainer: TrainerObject, rows: PreparedRows, setup: TrainingSetup, settings: Mapping[str, Any]
) -> Observed:
    """Return what a Trainer trains on whose data set was read: with batches, if rows are padded or
    packed before they are batched; else the strategy makes them from the lengths.
    """
    trained = None if rows.trained is None else TokenRanges.of_counts(rows.trained)
    # The samples of packed rows are no items of the data set.
    samples = Samples(
        rows.lengths, np.arange(len(rows.lengths)), trained=trained, is_indexed=not rows.is_packed
    )
    text = replace(samples, lengths=rows.text_lengths, trained=None)
    collating = trainer.collating
    assert collating is not None, "without a known collator, batches are read instead"
    own_settings = setup.batching.settings
    if collating.multiple > 1:
        own_settings = {**own_settings, "pad_to_multiple_of": collating.multiple}
        setup = setup.with_batching(settings=own_settings)
    # The strategy pads rows to the longest of a batch, and packs none. Batches that are made in
    # another way are given as they are.
    batches = None
    if rows.padded_tokens or trainer.packs or collating.width is not None:
        all_settings = Settings(**{**own_settings, **settings})
        batches = batches_of_rows(rows, collating, setup.batching.strategy, all_settings)
    # In words: what is padded before rows are batched, and how to remove that padding.
    padded, edit = padding_before_batching(rows, collating)
    if edit and not trainer.packs:
        edit += trainer.padding_collator(rows.trained is not None)
    # Padding that its mask calls real is not cut: only the user knows that it is none.
    repair = APPLY_TO_TRAINER if padded else edit
    if batches is not None:
        batches = replace(batches, repair=repair, apply=APPLY_TO_TRAINER)
    return Observed(
        kind=trainer.kind,
        setup=setup,
        profile=profile_of(samples),
        settings=settings,
        batches=batches,
        trainer=trainer,
        rows=rows,
        padded=padded,
        repair=repair,
        edit=edit,
        unpadded=setup.batching.strategy,
        without_padding=profile_of(text) if rows.ends_in_padding else None,
        warnings=tuple(faults_of_padding(rows, collating)),
    )


def setup_of_trainer(trainer: TrainerObject) -> TrainingSetup:
    """Return what the arguments of a Trainer mean, without those that no rule knows: what they
    decide is seen in the data set or the batches. If one asks for batches that are not modelled, a
    loader's setup with its schedule, and a warning: nobody knows what other arguments would change.
    """
    is_known = CONFIGURATIONS[trainer.framework].knows
    known_arguments = {
        key: value
        for key, value in trainer.arguments.items()
        if is_known(key) and value is not None  # None is an argument that is not used
    }
    # Without this argument, as before transformers 4.47, each rank divides by its own tokens.
    known_arguments.setdefault("average_tokens_across_devices", False)
    # There is no file: messages name the class of the arguments.
    path = Path(trainer.arguments_class)
    try:
        setup = setup_of(known_arguments, trainer.framework, path)
    except OptionError as error:
        why = str(error).removeprefix(f"{path}: ").partition(": ")[0]
        unknown = f"what its arguments would change is not known: {why}"
        names = ("num_train_epochs", "max_steps", "warmup_steps", "warmup_ratio")
        schedule = {key: known_arguments[key] for key in names if known_arguments.get(key)}
        return replace(
            LOADER,
            path=path,
            schedule=setup_of(schedule, trainer.framework, path).schedule,
            warnings=(Finding("config/unknown-keys", unknown),),
        )
    # The Trainer has truncated, dropped and shuffled samples already. Warnings about keys of other
    # versions do not apply: its arguments are those of its own version.
    own = tuple(each for each in setup.warnings if each.id == "order/unseeded-groups")
    return replace(setup.with_batching(prepare=keep_all), warnings=own)


def loss_of(trainer: TrainerObject, *, is_counted: bool) -> str:
    """Return the loss of a Trainer, one of `LOSSES`, or UNKNOWN; `is_counted` says whether batches
    are computed with the number of trained tokens in the step, by which it then divides.
    """
    if trainer.own_loss:  # the user's own code decides
        return UNKNOWN
    # A model that does not take the number computes a mean of each batch; of one that takes it and
    # is not given it, or does not use it, the loss is not known.
    if not is_counted:
        return UNKNOWN if trainer.takes_count else WITHOUT_COUNT
    if trainer.framework == "trl":
        return "trl"
    across_ranks = trainer.arguments.get("average_tokens_across_devices", False)
    return "num-items-in-batch" if across_ranks else "num-items-per-rank"


def _part_warnings(steps: int | None) -> tuple[Finding, ...]:
    if steps is None:
        return ()
    part = f"{counted(steps, 'step')} read: what an epoch has and loses is of these alone"
    return (Finding("recording/part-of-epoch", part),)
