"""`Proof`: whether a plan is what a run has trained on, batch for batch; and if not, why."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.documents.preflight import Proof
from batchstat.errors import BatchstatError, counted
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import RankBatches, plan_ranks
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.profiling.profile import Profile
from batchstat.recording.recording import Recording, read_recording
from batchstat.simulation.compare.named_rows import Row, request_of
from batchstat.trainers.preflight.current import CurrentSetup, current_of, of_recording, recorded
from batchstat.trainers.registry import CONFIGURATIONS

_SEEDS = (42, 0, 1, 2, 3, 1234)
"""Seeds that are tried where a recording has no Trainer that says its own."""
_EPOCHS = (0, 1, 2, 3)


@dataclass(frozen=True)
class _Batch:
    """A batch as both know it.

    Attributes:
        step: its step.
        rank: its rank.
        lengths: tokens of each sample, in sequence.
        tokens: what is computed of it, padding included.
    """

    step: int
    rank: int
    lengths: tuple[int, ...]
    tokens: int


def prove(now: CurrentSetup, folder: Path) -> Proof:
    """Compare what a setup makes with what was recorded, and try what would explain a difference.

    Args:
        now: the setup.
        folder: the recording.

    Raises:
        InputError: no recording, or one that cannot be described.
    """
    own = _batches(_planned(of_recording(recorded(folder), {})))
    proof = _compared(folder, _batches(_planned(now)), own)
    if proof.is_equal:
        return proof
    recording = read_recording(folder)
    longest = max(max(each.lengths) for each in own)

    def explain(tried: Iterable[tuple[str, RankBatches]]) -> tuple[str, ...]:
        return tuple(
            words for words, plan in tried if _compared(folder, _batches(plan), own).is_equal
        )

    differing = _differing(now, recording)
    causes = explain(_one_change(now, recording, longest)) or explain(_by_keys(now, differing))
    return replace(proof, causes=causes, hint="" if causes else _hint(recording, differing))


def _compared(folder: Path, planned: list[_Batch], own: list[_Batch]) -> Proof:
    """Return the first batch that differs. A recording may end earlier than its epoch."""
    equal, difference = 0, ""
    for mine, theirs in zip_longest(planned[: len(own)], own):
        difference = _difference(mine, theirs)
        if difference:
            place = f"batch {equal + 1:,} (step {theirs.step + 1:,}, rank {theirs.rank})"
            difference = f"{place}: {difference}"
            break
        equal += 1
    return Proof(
        folder=folder.as_posix(),
        batches=len(own),
        planned=len(planned),
        equal=equal,
        difference=difference,
    )


def _difference(mine: _Batch | None, theirs: _Batch) -> str:
    if mine is None:
        return "recorded, and not planned"
    if (mine.step, mine.rank) != (theirs.step, theirs.rank):
        return f"step {mine.step + 1:,} of rank {mine.rank} planned"
    if len(mine.lengths) != len(theirs.lengths):
        planned = counted(len(mine.lengths), "sample")
        return f"{planned} planned, {len(theirs.lengths):,} recorded"
    if mine.lengths != theirs.lengths:
        pairs = zip(mine.lengths, theirs.lengths, strict=True)
        place, (a, b) = next((place, pair) for place, pair in enumerate(pairs) if len({*pair}) > 1)
        return f"sample {place + 1:,} of {a:,} tokens planned, of {b:,} recorded"
    if mine.tokens != theirs.tokens:
        return f"{mine.tokens:,} tokens with padding planned, {theirs.tokens:,} recorded"
    return ""


def _one_change(
    now: CurrentSetup, recording: Recording, longest: int
) -> Iterator[tuple[str, RankBatches]]:
    """Yield changes of the plan, one at a time, each with what it makes: those that the Trainer of
    the run says first.
    """
    ran = _arguments(recording)
    values: dict[str, list[Any]] = {
        "seed": [ran.get("data_seed"), ran.get("seed"), *_SEEDS],
        "epoch": [*_EPOCHS],
        "world_size": [recording.ranks[0].world_size],
        "max_length": [ran.get("max_length"), longest],
    }
    for key, tried in values.items():
        for value in dict.fromkeys(tried):
            if value is None or value == getattr(now.settings, key):
                continue
            settings = {**now.trainer.settings, key: value}
            try:
                plan = _planned(current_of(replace(now.trainer, settings=settings)))
            except BatchstatError:  # it does not go with the setup
                continue
            yield f"{key} {value}", plan
    framework = now.trainer.framework
    if framework is not None and (packing := framework.packing):
        yield from _by_keys(now, {packing: not now.trainer.setup.own.get(packing, False)})


def _arguments(recording: Recording) -> Mapping[str, Any]:
    """Return the arguments of the Trainer of a run; none without one."""
    trainer = recording.ranks[0].trainer
    return {} if trainer is None else trainer["arguments"]


def _differing(now: CurrentSetup, recording: Recording) -> dict[str, Any]:
    """Return the arguments of the run that decide about batches and differ from the setup's."""
    ran, framework = _arguments(recording), now.trainer.framework
    known = {} if framework is None else framework.keys
    return {
        key: ran[key]
        for key, value in now.trainer.setup.config.values().items()
        # A record of several keys is filled up by transformers, and tokens are hidden by it.
        if key in known.keys() & ran.keys()
        and ran[key] != value
        and not (isinstance(ran[key], dict) or key.endswith("_token"))
    }


def _by_keys(now: CurrentSetup, keys: Mapping[str, Any]) -> Iterator[tuple[str, RankBatches]]:
    """Yield what other keys of a configuration make; nothing for an object, whose samples are
    prepared, or where they do not go together.
    """
    if not keys or now.trainer.observed is not None:
        return
    if (change := now.trainer.with_keys(keys)) is not None:
        words = " and ".join(f"{key} {json.dumps(value)}" for key, value in keys.items())
        profile = change.profile or now.samples.profile
        yield words, _plan(profile, change.settings, change.strategy)


def _hint(recording: Recording, differing: Mapping[str, Any]) -> str:
    """Return what differs otherwise, in words: a version, whose rules cannot be tried, or arguments
    whose batches are not those of the run either.
    """
    words = []
    trainer, rules = recording.ranks[0].trainer, CONFIGURATIONS["transformers"].version
    # With a dot after both, so that 5.1 is not the beginning of 5.10.
    if trainer is not None and not f"{trainer['version']}.".startswith(f"{rules}."):
        words.append(
            f"it ran with transformers {trainer['version']}, these are the rules of {rules}"
        )
    if differing:
        listed = ", ".join(f"{key} {json.dumps(value)}" for key, value in differing.items())
        words.append(f"it ran with {listed}")
    return "; ".join(words)


def _planned(now: CurrentSetup) -> RankBatches:
    """Return what a setup makes."""
    return _plan(now.samples.profile, now.settings, now.row)


def _plan(profile: Profile, settings: Settings, row: Row) -> RankBatches:
    inputs = resolve_inputs(profile, keep=settings.keep_labels)
    request = request_of(inputs, settings, row)
    return plan_ranks(make_shares(inputs.samples, request.settings), request)


def _batches(plan: RankBatches) -> list[_Batch]:
    """Return batches in the sequence of training: step by step, in each of them rank by rank."""
    offsets = plan.entry_offsets
    held = np.flatnonzero(np.diff(offsets))  # an empty batch of a rank is not computed
    made = [
        _Batch(
            int(plan.steps[place]),
            int(plan.ranks[place]),
            tuple(plan.lengths[offsets[place] : offsets[place + 1]].tolist()),
            int(plan.widths[place] * (plan.batch_offsets[place + 1] - plan.batch_offsets[place])),
        )
        for place in held.tolist()
    ]
    return sorted(made, key=lambda each: (each.step, each.rank))
