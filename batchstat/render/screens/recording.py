"""What the screen says of a recorded run: what was run, how long it took, and what else it did."""

from collections.abc import Iterator

from rich.console import Group, RenderableType

from batchstat.documents.preflight import SavedTime
from batchstat.errors import counted
from batchstat.profiling.profile import Profile
from batchstat.recording.run_facts import RunFacts
from batchstat.render.device import EXTRAPOLATED, duration, margin
from batchstat.render.screens.layout import Line
from batchstat.render.text import one_line, percent

_LONGEST_COMMAND = 60
_NOTHING = 0.01
"""Share of an epoch that is not worth to be called saved."""


def run_source(run: RunFacts) -> Iterator[Line]:
    """Yield the command, what trained, on how many ranks, and how much of it was recorded; then the
    Python that was found for a script.
    """
    command = one_line(run.command)
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[:_LONGEST_COMMAND]}…"
    words = [command or run.program]
    trainer = f"{run.trainer}, transformers {run.trainer_version}"
    words.append(trainer if run.trainer else f"torch {run.torch}")
    ranks = counted(run.world_size, "rank")
    words.append(ranks if run.ranks == run.world_size else f"{run.ranks:,} of {ranks}")
    words.append(f"{counted(run.steps, 'step')} recorded")
    if run.is_dry:
        what = ", of the first train() alone" if run.trainer else ""
        words.append(f"dry run: {run.computed_steps:,} computed{what}")
    yield Line("run", " · ".join(words))
    if run.python:
        yield Line("python", one_line(run.python))


def recorded_identity(run: RunFacts, profile: Profile) -> RenderableType:
    """Return the lines for the run whose samples a command works from."""
    words = [counted(len(profile), "sample"), counted(profile.stats.sum, "token")]
    return Group(*run_source(run), Line("data", f"{' · '.join(words)} recorded in {run.folder}"))


def run_lines(run: RunFacts, saved: SavedTime | None) -> Iterator[Line]:
    """Yield how long steps took and what a change saves of it, and what was computed beside
    training.
    """
    if run.step_seconds is not None:
        words = [f"{duration(run.step_seconds)} per step (median)"]
        words.append(f"{duration(run.seconds)} in all")
        words += [] if saved is None else [_saved(saved)]
        if run.skipped_steps:
            words.append(f"{run.skipped_steps:,} skipped, since a gradient was infinite")
        yield Line("time", " · ".join(words))
    if tokens := run.tokens_without_gradient:
        share = percent(tokens / (tokens + run.computed_tokens))
        calls = counted(run.forwards_without_gradient, "forward")
        what = "such as an evaluation or a reference model: not in these numbers"
        yield Line("beside", f"{calls} without a gradient, {share} of the tokens, {what}")


def _saved(saved: SavedTime) -> str:
    """Return what a change saves of an epoch, by the times of the run."""
    sign = EXTRAPOLATED if saved.is_extrapolated else ""
    if saved.before - saved.after < _NOTHING * saved.before:
        return f"{one_line(saved.label)} saves nothing of it, by the times of these batches"
    return (
        f"an epoch takes {duration(saved.before)}, with {one_line(saved.label)} "
        f"{sign}{duration(saved.after)}{margin(saved.residual)}"
    )
