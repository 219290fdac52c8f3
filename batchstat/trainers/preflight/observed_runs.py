"""What a recorded command trained on: its samples, and its batches."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.hidden_secrets import hidden_in
from batchstat.planning.strategies.registry import names_strategy
from batchstat.recording.recorded_batches import RecordedBatches, batches_of
from batchstat.recording.recorded_times import times_of
from batchstat.recording.recording import RecordedRank, Recording
from batchstat.recording.run_facts import run_facts
from batchstat.recording.trainer_object import TrainerObject, trainer_of
from batchstat.simulation.meters.token_weights import UNKNOWN
from batchstat.trainers.preflight.observed import (
    APPLY_TO_LOADER,
    APPLY_TO_TRAINER,
    LOADER,
    PAD_LESS,
    Observed,
    WholeEpoch,
    observe_batches,
)
from batchstat.trainers.preflight.observed_objects import loss_of, setup_of_trainer
from batchstat.words import counted

_MOST_NEW = 0.1  # of the batches, that may have a shape for the first time


def observe_recording(recording: Recording) -> Observed:
    """Return what a recorded command trained on in its first epoch. Raises InputError: nothing was
    recorded, ranks whose steps differ, or batches that cannot be described.
    """
    batches = batches_of(recording)
    first = recording.ranks[0]
    name = str(first.begun["program"]) or "a command"
    if names_strategy(name):  # a script static.py: its row may not be called as the strategy is
        name = f"{name} (run)"
    trainer = None if first.trainer is None else trainer_of(first.trainer)
    setup = replace(LOADER, path=Path(name))
    try:
        if trainer is not None:
            setup = setup_of_trainer(trainer)
            # Its batches are known, whatever is drawn without a seed.
            kept = [each for each in setup.warnings if each.id == "config/unknown-keys"]
            setup = replace(setup, warnings=tuple(kept))
    except OptionError as error:  # what is wrong was recorded: no option of the user's now
        raise InputError(f"{recording.folder.as_posix()}: {error.problem}", error.remedy) from None
    settings: dict[str, Any] = {
        "max_length": int(batches.collated.samples.lengths.max()),
        "world_size": len(recording.ranks),
        "gradient_accumulation_steps": batches.per_step,
        "loss": _loss_of(recording, trainer),
    }
    line = _applying_line(recording, trainer)
    if recording.wait is not None:  # else what the arguments of its Trainer say
        settings["wait"] = recording.wait
    # The trainer's collator pads to a multiple of this number.
    if first.trainer is not None and first.trainer["multiple"] > 1:
        settings["pad_to_multiple_of"] = first.trainer["multiple"]
    return observe_batches(
        batches.collated,
        kind=name,
        setup=setup,
        settings=settings,
        trainer=trainer,
        warnings=tuple(_warnings(recording, batches)),
        run=run_facts(recording, batches.epochs, batches.unstepped),
        is_stream=any(batch.is_stream for rank in recording.ranks for batch in rank.batches)
        or (trainer is not None and trainer.stream),
        epoch=_whole_epoch(recording, batches),
        times=times_of(recording),
        repair=line or PAD_LESS,
        apply=line,
        was_cut=any(batch.before for rank in recording.ranks for batch in rank.batches),
    )


def _applying_line(recording: Recording, trainer: TrainerObject | None) -> str:
    """Return the line that changes the batches of a run, or of a part of a program; empty where it
    was tried.
    """
    if recording.facts.get("applied") is not None:
        return ""
    if words := hidden_in(recording.facts.get("command", ())):
        return shlex.join(["batchstat", "run", "--apply", *words])
    return APPLY_TO_LOADER if trainer is None else APPLY_TO_TRAINER


def _whole_epoch(recording: Recording, batches: RecordedBatches) -> WholeEpoch | None:
    """Return the epoch of a Trainer's data set; None where all of it was recorded."""
    first, n_batches = recording.ranks[0], recording.ranks[0].epoch_batches or 0
    if first.trainer is None or batches.batches_of_rank >= n_batches:
        return None
    samples = None if batches.collated.batches.packs_rows else first.trainer.get("samples")
    per_step = first.trainer["arguments"].get("gradient_accumulation_steps", 1)
    return WholeEpoch(-(-n_batches // per_step), n_batches * first.world_size, samples)


def _loss_of(recording: Recording, trainer: TrainerObject | None) -> str:
    if trainer is None:
        return UNKNOWN
    batches = [batch for rank in recording.ranks for batch in rank.batches]
    # SFTTrainer divides in its step, outside of the forward.
    is_counted = trainer.takes_count and all(batch.is_counted for batch in batches)
    if trainer.framework == "trl":
        is_counted = all(batch.is_step_counted for batch in batches)
    return loss_of(trainer, is_counted=is_counted)


def _warnings(recording: Recording, batches: RecordedBatches) -> Iterator[Finding]:
    """Yield warnings about parts of a run that its report leaves out, or does not know."""
    first = recording.ranks[0]
    if recording.others:
        yield Finding(
            "recording/several-trainings",
            f"{counted(recording.others + 1, 'training')} recorded: this is the one with the most "
            "batches",
        )
    if recording.of_other_runs:
        yield Finding(
            "recording/other-runs",
            f"{counted(recording.of_other_runs, 'file')} of another run in the same folder: left "
            "out",
        )
    if later := first.later_trainings:
        yield Finding(
            "recording/several-trainings",
            f"train() was called {later + 1:,} times: this is the first",
        )
    yield from _rank_warnings(recording)
    shapes = {(p.rows, p.width) for batch in first.batches if batch.before for p in batch.parts}
    if first.device and len(shapes) > _MOST_NEW * len(first.batches):
        yield Finding(
            "device/new-shapes",
            f"{counted(len(shapes), 'shape')} of cut batches came for the first time, which takes "
            "the device longer: --pad-to-multiple-of N makes fewer",
        )
    if recording.is_dry and first.trainer and "compute_loss" in first.trainer["own_loss"]:
        yield Finding(
            "recording/own-loss",
            "a dry run has each batch once, whatever the script's own compute_loss does with it",
        )
    if (epoch := _whole_epoch(recording, batches)) is not None:
        recorded = f"{batches.batches_of_rank * len(recording.ranks):,} of its {epoch.batches:,}"
        yield Finding(
            "recording/part-of-epoch",
            f"less than an epoch was recorded: what batches pad and lose is of {recorded} batches",
        )
    if first.why_partly:
        yield Finding("recording/part-of-epoch", f"this is less than an epoch: {first.why_partly}")
    yield from _epoch_warnings(first, batches)
    rows = len(batches.collated.samples.lengths)
    if batches.draws_again:
        yield Finding(
            "recording/drawn-again",
            f"samples were drawn more than once: each of {rows:,} recorded rows counts as one",
        )
    elif not batches.is_numbered and (first.trainer or {}).get("together") != "group":
        yield Finding(
            "recording/unnumbered",
            f"which samples these are is not known: what would help is an estimate from "
            f"{rows:,} recorded rows",
        )


def _epoch_warnings(first: RecordedRank, batches: RecordedBatches) -> Iterator[Finding]:
    """Yield warnings about what an epoch is in a run."""
    if batches.epochs is None:
        yield Finding(
            "recording/unknown-epochs",
            "where an epoch ends is not known: all that was recorded counts as one",
        )
    elif batches.epochs > 1:
        yield Finding(
            "recording/several-epochs",
            f"{batches.epochs:,} epochs were recorded: this is the first",
        )
    if batches.loaders > 1:
        of = f"{counted(batches.data_sets, 'data set')}: an epoch has each of them once"
        yield Finding("recording/several-loaders", f"{batches.loaders:,} loaders of {of}")
    if first.threads > 1:
        yield Finding(
            "recording/several-threads",
            f"{first.threads:,} threads trained: which batches make a step is not known",
        )


def _rank_warnings(recording: Recording) -> Iterator[Finding]:
    """Yield warnings about ranks that were not recorded, or not to their end."""
    if len(recording.ranks) < (world := recording.ranks[0].world_size):
        yield Finding(
            "recording/missing-ranks",
            f"{len(recording.ranks):,} of {world:,} ranks were recorded: what ranks wait is not "
            "known of the others",
        )
    if unended := [str(rank.rank) for rank in recording.ranks if not rank.why_ended]:
        which = "rank" if len(unended) == 1 else "ranks"
        yield Finding(
            "recording/unended",
            f"{which} {', '.join(unended)} did not come to an end: still running or killed, so "
            "that the last steps may be missing",
        )
