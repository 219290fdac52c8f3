"""`Proof`: whether a plan is what a run has trained on, batch for batch; and if not, why."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.documents.preflight import Proof
from batchstat.errors import BatchstatError
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import RankBatches, plan_ranks
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.profiling.profile import Profile
from batchstat.recording.recording import Recording, read_recording
from batchstat.simulation.compare.named_rows import Row, request_of
from batchstat.trainers.preflight.current import (
    CurrentSetup,
    observe_folder,
    training_of,
    training_of_observed,
)
from batchstat.trainers.registry import CONFIGURATIONS
from batchstat.words import counted

_SEEDS = (42, 0, 1, 2, 3, 1234)  # usual ones, tried beside that of the recorded Trainer
_EPOCHS = (0, 1, 2, 3)  # epochs that are tried: a recording may have begun with a later one
_ChangedPlans = Iterator[tuple[str, RankBatches]]
"""Changes of a setup in words, such as "seed 0", each with the batches that it then plans."""


@dataclass(frozen=True)
class _Batch:
    """What is compared of a batch, planned or recorded."""

    step: int
    rank: int
    lengths: tuple[int, ...]  # tokens of each sample, in sequence
    tokens: int


def prove(setup: CurrentSetup, folder: Path) -> Proof:
    """Compare the batches that a setup plans with those of a recorded run. If they differ, look for
    the reason: try other settings, and the keys of the run that differ. Raises InputError: no
    recording, or one that cannot be described.
    """
    recorded = _batches(_planned(training_of_observed(observe_folder(folder), {})))
    proof = _compare(folder, _batches(_planned(setup)), recorded)
    if proof.is_equal:
        return proof
    recording = read_recording(folder)
    longest = max(max(batch.lengths) for batch in recorded)

    def causes_among(plans: _ChangedPlans) -> tuple[str, ...]:
        proofs = ((change, _compare(folder, _batches(plan), recorded)) for change, plan in plans)
        return tuple(change for change, proof in proofs if proof.is_equal)

    differing = _differing_arguments(setup, recording)
    # One change at a time; only if none of them explains it, all keys that differ at once.
    causes = causes_among(_one_change(setup, recording, longest))
    causes = causes or causes_among(_change_of_keys(setup, differing))
    grouped = setup.trainer.setup.batching.strategy.name == "hf-group-by-length"
    hint = "" if causes else _hint(recording, differing, grouped)
    return replace(proof, causes=causes, hint=hint)


def _compare(folder: Path, planned: list[_Batch], recorded: list[_Batch]) -> Proof:
    """Return how many batches are equal from the first on, and the first that differs, in words."""
    # A recording may end earlier than its epoch: planned batches after its last one do not count.
    equal, difference = 0, ""
    for plan, record in zip_longest(planned[: len(recorded)], recorded):
        difference = _difference(plan, record)
        if difference:
            place = f"batch {equal + 1:,} (step {record.step + 1:,}, rank {record.rank})"
            difference = f"{place}: {difference}"
            break
        equal += 1
    return Proof(
        folder=folder.as_posix(),
        batches=len(recorded),
        planned=len(planned),
        equal=equal,
        difference=difference,
    )


def _difference(plan: _Batch | None, record: _Batch) -> str:
    """Return the first thing in which a batch differs from the recorded one; empty if equal."""
    if plan is None:  # the plan has fewer batches
        return "recorded, and not planned"
    if (plan.step, plan.rank) != (record.step, record.rank):
        return f"step {plan.step + 1:,} of rank {plan.rank} planned"
    if len(plan.lengths) != len(record.lengths):
        planned = counted(len(plan.lengths), "sample")
        return f"{planned} planned, {len(record.lengths):,} recorded"
    if plan.lengths != record.lengths:
        pairs = enumerate(zip(plan.lengths, record.lengths, strict=True), start=1)
        place, in_plan, in_run = next((i, a, b) for i, (a, b) in pairs if a != b)
        return f"sample {place:,} of {in_plan:,} tokens planned, of {in_run:,} recorded"
    if plan.tokens != record.tokens:
        return f"{plan.tokens:,} tokens with padding planned, {record.tokens:,} recorded"
    return ""


def _one_change(setup: CurrentSetup, recording: Recording, longest: int) -> _ChangedPlans:
    """Yield plans with one other setting, each after it in words; values of the run first."""
    run_arguments = _arguments(recording)
    candidates: dict[str, list[Any]] = {  # values to try, by setting
        "seed": [run_arguments.get("data_seed"), run_arguments.get("seed"), *_SEEDS],
        "epoch": [*_EPOCHS],
        "world_size": [recording.ranks[0].world_size],
        "max_length": [run_arguments.get("max_length"), longest],
    }
    for key, values in candidates.items():
        for value in dict.fromkeys(values):  # each once, in this sequence
            if value is None or value == getattr(setup.settings, key):
                continue
            settings = {**setup.trainer.settings, key: value}
            try:
                plan = _planned(training_of(replace(setup.trainer, settings=settings)))
            except BatchstatError:  # the value contradicts another setting, or leaves no sample
                continue
            yield f"{key} {value}", plan
    framework = setup.trainer.framework
    # Packing is no setting, but a key of the trainer: try the other value of it.
    if framework is not None and "packing" in framework.keys:
        other_value = not setup.trainer.setup.own.get("packing", False)
        yield from _change_of_keys(setup, {"packing": other_value})


def _arguments(recording: Recording) -> Mapping[str, Any]:
    trainer = recording.ranks[0].trainer
    return {} if trainer is None else trainer["arguments"]


def _differing_arguments(setup: CurrentSetup, recording: Recording) -> dict[str, Any]:
    """Return the run's arguments that decide about batches and differ from the setup's."""
    run_arguments, framework = _arguments(recording), setup.trainer.framework
    deciding_keys = {} if framework is None else framework.keys
    differing = {}
    for key, value in setup.trainer.setup.config.values().items():
        in_run = run_arguments.get(key, value)
        # Tables of keys, which transformers fills up, and tokens, which it hides, say nothing.
        always_differs = isinstance(in_run, dict) or key.endswith("_token")
        if key in deciding_keys and in_run != value and not always_differs:
            differing[key] = in_run
    return differing


def _change_of_keys(setup: CurrentSetup, keys: Mapping[str, Any]) -> _ChangedPlans:
    """Yield the keys with their values in words, and the plan of the configuration with these."""
    if not keys or setup.trainer.observed is not None:
        return
    if (change := setup.trainer.change_of_keys(keys)) is not None:
        words = " and ".join(f"{key} {json.dumps(value)}" for key, value in keys.items())
        # A change that leaves the samples as they are has no profile of its own.
        profile = change.profile or setup.samples.profile
        yield words, _plan(profile, change.settings, change.strategy)


def _hint(recording: Recording, differing: Mapping[str, Any], grouped: bool) -> str:
    """Return, in words, what may be the reason where no change explains the difference."""
    reasons = []
    if grouped:
        reasons.append("group_by_length draws without a seed, so that each run has other batches")
    trainer, rules = recording.ranks[0].trainer, CONFIGURATIONS["transformers"].version
    # With a dot after both, so that 5.1 is not the beginning of 5.10.
    if trainer is not None and not f"{trainer['version']}.".startswith(f"{rules}."):
        reasons.append(
            f"it ran with transformers {trainer['version']}, these are the rules of {rules}"
        )
    if differing:
        arguments = ", ".join(f"{key} {json.dumps(value)}" for key, value in differing.items())
        reasons.append(f"it ran with {arguments}")
    return "; ".join(reasons)


def _planned(setup: CurrentSetup) -> RankBatches:
    return _plan(setup.samples.profile, setup.settings, setup.row)


def _plan(profile: Profile, settings: Settings, row: Row) -> RankBatches:
    inputs = resolve_inputs(profile, keep=settings.keep_labels)
    request = request_of(inputs, settings, row)
    return plan_ranks(make_shares(inputs.samples, request.settings), request)


def _batches(plan: RankBatches) -> list[_Batch]:
    """Return the batches of a plan in the sequence of training: by step, and in a step by rank."""
    offsets = plan.entry_offsets
    # A rank that ran out of batches has an empty one, which it does not compute, nor record.
    with_samples = np.flatnonzero(np.diff(offsets))
    batches = [
        _Batch(
            step=int(plan.steps[i]),
            rank=int(plan.ranks[i]),
            lengths=tuple(plan.lengths[offsets[i] : offsets[i + 1]].tolist()),
            # The width times the number of rows.
            tokens=int(plan.widths[i] * (plan.batch_offsets[i + 1] - plan.batch_offsets[i])),
        )
        for i in with_samples.tolist()
    ]
    # A stable sort: batches of one rank in one step keep their sequence.
    return sorted(batches, key=lambda batch: (batch.step, batch.rank))
