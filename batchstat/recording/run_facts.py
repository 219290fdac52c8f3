"""What a report says of a recorded run beside its batches."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

from batchstat.hidden_secrets import hidden_in
from batchstat.parameters import described
from batchstat.recording.recorder.reading import settle
from batchstat.recording.recording import RecordedBatch, RecordedRank, Recording
from batchstat.records import Amount, Count, Record, told, untold


@described("What `--apply` did to a run.")
class Applied(Record, kw_only=True):
    why_not: str = told("Why nothing was cut; empty where batches were.")
    why_not_regrouped: str = told("Why steps were not regrouped; empty where they were.")
    regrouped_steps: Count = told("Steps whose samples came in other batches.")
    steps: Count = told("All steps, of all epochs.")
    batches: Count = told("Batches that were computed, of all epochs and ranks.")
    cut_batches: Count = told("Batches of these whose padding was cut.")
    real_tokens: Count = told("Real tokens of all batches.")
    tokens_before: Count = told("Tokens of all batches as the loader made them, padding included.")
    total_tokens: Count = told("Tokens of all batches as they were computed, padding included.")
    step_seconds_before: Amount | None = told(
        "Mean time of the first steps, which were as they came; null where it is not known."
    )
    step_seconds: Amount | None = told("Mean time of later steps; null where it is not known.")
    largest_difference: Amount = told(
        "The largest difference of a loss or gradient of the checks, as a share."
    )
    outputs: Count = told("Batches whose outputs were compared with those of them cut.")
    dry_run_seconds: Amount = told("Time of the dry run before; 0 where an earlier one was taken.")


@described("A run whose batches were recorded.")
class RunFacts(Record, kw_only=True):
    command: str = told("The command; empty for a part of a program.")
    python: str = told("The Python that was found for a script; empty where the command names one.")
    created: str = told("When it began.")
    folder: str = told("Where it was recorded.")
    trainer: str = told("The class of the Trainer; empty without one.")
    trainer_version: str = told(
        "The version of transformers; empty without a Trainer.", key="transformers"
    )
    torch: str = told("The version of torch.")
    ranks: Count = told("Ranks that were recorded.")
    world_size: Count = told("Ranks that there were.")
    steps: Count = told("Optimizer steps that were recorded.")
    epochs: Count | None = told("Epochs that were recorded; null where that is not known.")
    unstepped_batches: Count = told("Batches of the epoch that are in no optimizer step of it.")
    unstepped_samples: Count = told("Samples of these batches.")
    unstepped_tokens: Count = told("Real tokens of these batches.")
    computed_steps: Count = told("Optimizer steps that were computed: fewer in a dry run.")
    is_dry: bool = told(
        "Whether an epoch of batches was to be read without training.", key="dry_run"
    )
    step_seconds: Amount | None = told(
        "Median time of a computed step; null where no two were timed."
    )
    seconds: Amount = told("Time of all computed steps but the first, on one rank.")
    skipped_steps: Count = told("Steps that a scaler of gradients skipped.")
    forwards_without_gradient: Count = told(
        "Forwards with token ids that were not trained, such as those of an evaluation."
    )
    tokens_without_gradient: Count = told("Tokens of these, padding included.")
    computed_tokens: Count = told("Tokens of the forwards that were trained, padding included.")
    applied: Applied | None = told("What `--apply` did; null without it.")
    # Why they are in no step, in words -> batches and samples.
    unstepped: Mapping[str, tuple[int, int]] = untold()
    program: str = untold()  # the name of the program that trained
    no_weights: bool = untold()  # whether models were made without their weights
    why_ended: str = untold()  # how the command was ended; empty where it ended by itself


def run_facts(
    recording: Recording, epochs: int | None, unstepped: Sequence[tuple[str, int, int]]
) -> RunFacts:
    """Return the facts of a recording; `unstepped`: why, samples, tokens of batches in no step."""
    first, facts = recording.ranks[0], recording.facts
    batches = [batch for rank in recording.ranks for batch in rank.batches]
    computed = [batch for batch in batches if batch.began is not None]
    # A dry run may end steps without computing; the batches that a rank computed come first.
    computing = [rank for rank in recording.ranks if rank.batches[0].began is not None]
    # From the end of a step to the end of the next: nothing tells when the first step began.
    times = [after - before for rank in computing for before, after in pairwise(rank.step_ends)]
    if any(seconds < 0 for seconds in times):  # clocks of a processor and of a device that differ
        times = []
    trainer = first.trainer or {}
    stepped = [batch for batch in first.batches if not batch.unstepped]
    samples_of_why: dict[str, list[int]] = {}
    for why, samples, _ in unstepped:
        samples_of_why.setdefault(why, []).append(samples)
    return RunFacts(
        folder=recording.folder.as_posix(),
        # Recordings of earlier versions may hold secrets.
        command=shlex.join(hidden_in(facts.get("command", ()))),
        python=facts.get("python") or "",
        program=str(first.begun["program"]),
        created=str(facts["created"]),
        trainer=trainer.get("kind", ""),
        trainer_version=trainer.get("version", ""),
        torch=str(first.begun["torch"]),
        ranks=len(recording.ranks),
        world_size=first.world_size,
        steps=len({batch.step for batch in stepped}),
        epochs=epochs,
        computed_steps=len({batch.step for batch in stepped if batch.began is not None}),
        unstepped={why: (len(each), sum(each)) for why, each in samples_of_why.items()},
        unstepped_batches=len(unstepped),
        unstepped_samples=sum(samples for _, samples, _ in unstepped),
        unstepped_tokens=sum(tokens for _, _, tokens in unstepped),
        is_dry=recording.is_dry,
        no_weights=bool(facts.get("no_weights")),
        step_seconds=median(times) if times else None,
        seconds=sum(times) / len(recording.ranks),
        skipped_steps=sum(rank.skipped for rank in recording.ranks),
        forwards_without_gradient=sum(rank.unused[0] for rank in recording.ranks),
        tokens_without_gradient=sum(rank.unused[1] for rank in recording.ranks),
        computed_tokens=sum(part.rows * part.width for batch in computed for part in batch.parts),
        applied=_applied(recording),
        why_ended=first.why_ended if first.is_planned else "",
    )


_SETTLED = 2  # steps after which times count: the first ones allocate and compile


def _applied(recording: Recording) -> Applied | None:
    facts = recording.facts.get("applied")
    if facts is None:
        return None
    batches = [batch for rank in recording.ranks for batch in rank.batches]
    tokens = [sum(part.rows * part.width for part in batch.parts) for batch in batches]
    # A report settles the parts of one epoch: what pads is guessed here by those of all.
    parts = [replace(part) for batch in batches for part in batch.parts]
    settle([part for part in parts if part.ends])
    real = [sum(map(sum, part.real or ())) for part in parts]
    before, now = _step_seconds(recording.ranks[0])
    return Applied(
        why_not=facts["why_not"],
        why_not_regrouped=facts.get("why_not_regrouped", ""),
        regrouped_steps=len({batch.step for batch in batches if batch.today}),
        steps=len({batch.step for batch in batches}),
        batches=len(batches),
        cut_batches=sum(batch.before > 0 for batch in batches),
        real_tokens=sum(real),
        tokens_before=sum(b.today or b.before or t for b, t in zip(batches, tokens, strict=True)),
        total_tokens=sum(tokens),
        step_seconds_before=before,
        step_seconds=now,
        largest_difference=facts["apart"],
        outputs=facts["outputs"],
        dry_run_seconds=facts["seconds"],
    )


def _step_seconds(rank: RecordedRank) -> tuple[float | None, float | None]:
    """Return the mean times of steps as they came, and of changed ones; None where no step is
    timed. The first batch of a shape takes longer: its step counts where there is no other.
    """
    steps: dict[int, list[RecordedBatch]] = {}
    for batch in rank.batches:
        steps.setdefault(batch.step, []).append(batch)
    known: dict[bool, list[float]] = {True: [], False: []}
    new: dict[bool, list[float]] = {True: [], False: []}
    seen: set[tuple[int, int]] = set()
    times = pairwise([0.0, *rank.step_ends])
    for number, (step, (before, after)) in enumerate(zip(steps.values(), times, strict=False)):
        shapes = {(part.rows, part.width) for batch in step for part in batch.parts}
        if number >= _SETTLED:
            where = known if shapes <= seen else new
            where[any(batch.before or batch.today for batch in step)].append(after - before)
        seen |= shapes
    whole, cut = (known[is_cut] or new[is_cut] for is_cut in (False, True))
    return mean(whole) if whole else None, mean(cut) if cut else None
