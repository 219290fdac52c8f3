"""Lines on a recorded run: what was run, its steps, and how a plan compares with its batches."""

from collections.abc import Iterator

from rich.console import Group, RenderableType

from batchstat.applying.step_state import ONE_BATCH
from batchstat.documents.preflight import Proof
from batchstat.profiling.profile import Profile
from batchstat.recording.run_facts import Applied, RunFacts
from batchstat.render.device import duration
from batchstat.render.screens.layout import Line
from batchstat.render.text import one_line, percent
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.words import counted

_LONGEST_COMMAND = 60  # characters of the recorded command that a screen shows


def run_source(run: RunFacts) -> Iterator[Line]:
    """Yield the lines on a recording: command, framework, ranks, steps, and its Python."""
    command = one_line(run.command)
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[:_LONGEST_COMMAND]}…"
    # A part of a program has no command.
    facts = [command or run.program]
    # What ran the training: a trainer of transformers, else torch without one.
    trainer = f"{run.trainer}, transformers {run.trainer_version}"
    facts.append(trainer if run.trainer else f"torch {run.torch}")
    all_ranks = counted(run.world_size, "rank")
    # `ranks` were recorded of `world_size`: a recording may lack some of the run.
    facts.append(all_ranks if run.ranks == run.world_size else f"{run.ranks:,} of {all_ranks}")
    facts.append(f"{counted(run.steps, 'step')} recorded")
    if (run.epochs or 0) > 1:
        facts.append(f"shown: the first of {run.epochs:,} epochs")
    if run.is_dry:
        scope = ", of the first train() alone" if run.trainer else ""
        if not run.trainer:
            rest = ", the rest of that loader read" if run.steps > run.computed_steps else ""
            scope = f"{rest}; whether the loop goes on to another loader was not seen"
        facts.append(f"dry run: {run.computed_steps:,} computed{scope}")
    yield Line("run", " · ".join(facts))
    if run.python:
        yield Line("python", one_line(run.python))
    if run.applied is not None:
        yield applied_line(run.applied, run.is_dry)


def applied_line(applied: Applied, is_dry: bool) -> Line:
    """Return the line on what `--apply` did, or in a dry run would do."""
    cuts, regroups = not applied.why_not, not applied.why_not_regrouped
    reasons = [] if cuts else [one_line(applied.why_not, 300)]
    if not regroups and applied.why_not_regrouped not in (applied.why_not, ONE_BATCH):
        reasons.append(f"steps not regrouped: {one_line(applied.why_not_regrouped, 300)}")
    if not cuts and not regroups:
        return Line("applied", f"nothing: {' · '.join(reasons)}")
    if not (applied.cut_batches or applied.regrouped_steps or is_dry):
        return Line("applied", "nothing: no batch was changed; the command's output may say why")
    changes = ["cuts its padding"] * cuts + ["regroups its steps"] * regroups
    facts = [f"nothing yet: the same command without --dry-run {' and '.join(changes)}"]
    if not is_dry:
        before, now = (
            percent(1 - applied.real_tokens / tokens)
            for tokens in (applied.tokens_before, applied.total_tokens)
        )
        of_batches = counted(applied.batches, "batch", "batches")
        of_steps = counted(applied.steps, "step")
        cut = [f"padding cut in {applied.cut_batches:,} of {of_batches}"] * cuts
        regrouped = [f"{applied.regrouped_steps:,} of {of_steps} regrouped"] * regroups
        facts = [f"{', '.join(cut + regrouped)}: {before} → {now} padding"]
    if applied.step_seconds and applied.step_seconds_before:
        times = applied.step_seconds, applied.step_seconds_before
        now, before = (duration(100 * seconds) for seconds in times)
        facts.append(f"{now} per 100 steps, {before} before (first steps, as they came)")
    n_steps = counted(2 * cuts + regroups, "step")
    same = f"loss and gradients of {n_steps} equal to {applied.largest_difference:.0e}"
    if applied.outputs:
        same = f"outputs of {counted(applied.outputs, 'batch', 'batches')}, {same}"
    facts.append(f"checked: {same}")
    took = applied.dry_run_seconds
    facts.append(f"dry run {duration(took)}" if took else "by the last dry run")
    return Line("applied", " · ".join([*facts, *reasons]))


def recorded_identity(run: RunFacts, profile: Profile) -> RenderableType:
    """Return the lines on the recorded run whose samples a command works from."""
    samples = counted(len(profile), "sample")
    if profile.rows is not None:
        samples = profile.rows.in_words(len(profile), f"{len(profile):,}")
    words = [samples, counted(profile.tokens, "token")]
    return Group(*run_source(run), Line("data", f"{' · '.join(words)} recorded in {run.folder}"))


def unstepped_lines(run: RunFacts, counts: PlanCounts, n_batches: int) -> Iterator[Line]:
    """Yield the lines on batches of an epoch that are in no step of it, and why."""
    for why, (batches, samples) in run.unstepped.items():
        of_all = f"{samples:,} of {counted(counts.samples, 'sample')}"
        yield Line("no step", f"{of_all} {why}: {batches:,} of {n_batches:,} batches")


def proof_words(proof: Proof) -> str:
    """Return how many planned batches are equal to those of a run, and what explains others."""
    recorded = f"{proof.batches:,} recorded batches of {one_line(proof.folder)}"
    if proof.is_equal:
        # The recording may end before the epoch does.
        planned = f", of {proof.planned:,} planned" if proof.planned > proof.batches else ""
        return f"equal in all {recorded}{planned}"
    words = f"{proof.equal:,} of {recorded} are equal, then {proof.difference}"
    # Other settings, with each of which all batches would be equal.
    if proof.causes:
        return f"{words}; equal with {' or '.join(proof.causes)}"
    hint = proof.hint or "no seed, epoch, world size, max_length or packing alone explains it"
    return f"{words}; {hint}"


def run_lines(run: RunFacts) -> Iterator[Line]:
    """Yield the lines on the time of the run's steps, and on what it computed besides training."""
    if run.step_seconds is not None:
        facts = [f"{duration(run.step_seconds)} per step (median)"]
        facts.append(f"{duration(run.seconds)} in all")
        if run.skipped_steps:
            facts.append(f"{run.skipped_steps:,} skipped, since a gradient was infinite")
        yield Line("time", " · ".join(facts))
    if tokens := run.tokens_without_gradient:
        share = percent(tokens / (tokens + run.computed_tokens))
        calls = counted(run.forwards_without_gradient, "forward")
        note = "such as an evaluation or a reference model: not in these numbers"
        yield Line("beside", f"{calls} without a gradient, {share} of the tokens, {note}")
