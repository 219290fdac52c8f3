"""What a report says of a recorded run beside its batches."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from batchstat.recording.recording import RecordedRank, Recording


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What was run, how far it came, and what it computed beside training.

    Attributes:
        folder: where it was recorded.
        command: the command, as it was given; empty for a part of a program.
        python: the Python that was found for a script; empty where the command names one.
        program: the name of the program that trained.
        created: when it began.
        trainer: the class of the Trainer; empty without one.
        trainer_version: the version of transformers; empty without a Trainer.
        torch: the version of torch.
        ranks: ranks that were recorded.
        world_size: how many there were.
        steps: optimizer steps that were recorded.
        computed_steps: those that were computed.
        is_dry: whether an epoch of batches was to be read without training.
        no_weights: whether models were made without their weights.
        step_seconds: median time of a computed step; None where fewer than two were timed.
        seconds: time of all computed steps but the first, on one rank.
        skipped_steps: steps that a scaler of gradients skipped, on all ranks.
        forwards_without_gradient: calls of models with token ids that were not trained.
        tokens_without_gradient: tokens of these.
        computed_tokens: tokens of the forwards that were trained, padding included.
        why_ended: how the command was ended, where it was; empty where it ended by itself.
    """

    folder: str
    command: str
    python: str
    program: str
    created: str
    trainer: str
    trainer_version: str
    torch: str
    ranks: int
    world_size: int
    steps: int
    computed_steps: int
    is_dry: bool
    no_weights: bool
    step_seconds: float | None
    seconds: float
    skipped_steps: int
    forwards_without_gradient: int
    tokens_without_gradient: int
    computed_tokens: int
    why_ended: str


def run_facts(recording: Recording) -> RunFacts:
    """Return the facts of a recording that has a batch."""
    first, facts = recording.ranks[0], recording.facts
    batches = [batch for rank in recording.ranks for batch in rank.batches]
    ends = [rank.unused for rank in recording.ranks]
    unused = [batch.unused for batch in batches] + ends
    times = [seconds for rank in recording.ranks for seconds in _step_seconds(rank)]
    computed = [batch for batch in batches if batch.began is not None]
    trainer = first.trainer or {}
    return RunFacts(
        folder=recording.folder.as_posix(),
        command=shlex.join(facts.get("command", ())),
        python=facts.get("python") or "",
        program=str(first.begun["program"]),
        created=str(facts["created"]),
        trainer=trainer.get("kind", ""),
        trainer_version=trainer.get("version", ""),
        torch=str(first.begun["torch"]),
        ranks=len(recording.ranks),
        world_size=first.world_size,
        steps=len({batch.step for batch in first.batches}),
        computed_steps=len({batch.step for batch in first.batches if batch.began is not None}),
        is_dry=recording.is_dry,
        no_weights=bool(facts.get("no_weights")),
        step_seconds=median(times) if times else None,
        seconds=sum(times) / len(recording.ranks),
        skipped_steps=sum(rank.skipped for rank in recording.ranks),
        forwards_without_gradient=sum(calls for calls, _ in unused),
        tokens_without_gradient=sum(tokens for _, tokens in unused),
        computed_tokens=sum(part.rows * part.width for batch in computed for part in batch.parts),
        why_ended=first.why_ended if first.is_planned else "",
    )


def _step_seconds(rank: RecordedRank) -> Iterator[float]:
    """Yield the time between the ends of steps, of those that were computed."""
    if any(batch.began is not None for batch in rank.batches):
        yield from (after - before for before, after in pairwise(rank.step_ends))
