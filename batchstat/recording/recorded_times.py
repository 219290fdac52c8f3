"""The times of a recorded run as a calibration, in the form that `calibrate` measures. They include
all that its steps do, so that nothing has to be known of its ranks. Its batches have any size, and
some met a stall: those of about one size are a point, whose seconds are a median.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from batchstat.calibration.calibration import MOST_NOISE, Calibration, load_calibration
from batchstat.calibration.fit import columns_of, fit_calibration, fit_seconds
from batchstat.calibration.measured import Hardware, Point, Shape
from batchstat.calibration.setup import Setup
from batchstat.errors import InputError
from batchstat.lengths.arrays import Floats
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recording import RecordedRank, Recording, read_recording
from batchstat.storage.addresses import local_path
from batchstat.words import counted

_BATCHES_PER_POINT = 5  # batches of a point at least, so that a stalled one is not its median
# The fit of a batch's time has 3 coefficients, and needs a point more; above 24 it gains nothing.
_LEAST_POINTS, _MOST_POINTS = 4, 24
# Tokens of the largest / the smallest point: less cannot tell a token's time from a batch's.
_LEAST_SPREAD = 1.5
# Time of a batch of a new shape / time of one whose shape came before: below it, they are alike.
_LEAST_SLOWDOWN = 1.1


class _Timed(NamedTuple):
    """A batch that was computed."""

    shape: Shape
    seconds: float  # of its forward and backward
    # Whether a rank that it waits for had no batch of its rows and width before.
    is_new: bool


def read_calibration(calibration: Calibration | str | Path) -> tuple[Calibration, str | None]:
    """Read a calibration from its file, or make one from the folder of a recorded run. Return it
    with the file or folder; None where it was given as it is. Raises InputError: a file that cannot
    be read, or a recorded run whose times cannot be used.
    """
    if isinstance(calibration, Calibration):
        return calibration, None
    path: str | Path = calibration
    # `load_calibration` refuses anything else.
    if hasattr(path, "open") or isinstance(path, str):
        path = local_path(path)
    # Not Path.is_dir, which raises OSError for a name that is too long.
    is_run = isinstance(path, Path) and os.path.isdir(path)  # noqa: PTH112
    loaded = recorded_calibration(read_recording(Path(path))) if is_run else load_calibration(path)
    return loaded, Path(path).as_posix()


def times_of(recording: Recording) -> Calibration | None:
    """Return the times of a recorded run as a calibration; None where they cannot be used."""
    try:
        return recorded_calibration(recording)
    except InputError:
        return None


def recorded_calibration(recording: Recording) -> Calibration:
    """Return the times of a recorded run as a calibration. The seconds of a batch are those of its
    forward and backward on the rank that computes most. Those of an update are what else a step
    took: loading, communication, the optimizer's update. Raises InputError: too little was
    computed, all batches are about as large or have several forwards, or the fit is too far off.
    """
    name = recording.folder.as_posix()
    if not recording.ranks:
        raise InputError(f"{name}: nothing was recorded: {recording.why_nothing}")
    if recording.is_dry:
        raise InputError(f"{name} has no times: it was a dry run", "record one that trains")
    if any(len(batch.parts) > 1 for rank in recording.ranks for batch in rank.batches):
        raise InputError(
            f"{name} has no times of batches: a backward computes several forwards",
            "measure them with batchstat calibrate",
        )
    batches, updates = _timed_batches_and_updates(recording)
    if not updates:  # the first step is not counted
        raise InputError(f"{name} has no times: fewer than two steps were computed")
    points = _points(name, batches, median(updates))
    first = recording.ranks[0]
    time, _ = fit_calibration(points, fixed=None)  # no fit of memory without the bytes of weights
    if time.residual > MOST_NOISE:
        raise InputError(
            f"the times in {name} are ±{time.residual:.0%} from what batches of their size should "
            f"take, and {MOST_NOISE:.0%} is the most",
            "record on an idle device, or measure with batchstat calibrate",
        )
    versions = {name: str(first.begun[name]) for name in ("torch", "python")}
    device = first.device or "cpu"
    return Calibration(
        created=str(recording.facts["created"]),
        setup=Setup(model=str(first.begun["program"]) or "a command", is_recorded=True),
        hardware=Hardware(device=device, name=device, memory=None, versions=versions),
        points=points,
        time=time,
        memory=None,
        fits=None,
    )


def _timed_batches_and_updates(recording: Recording) -> tuple[list[_Timed], list[float]]:
    """Return the batches of all steps but the first, and the seconds of each beyond its batches."""
    # The first step is left out: it also allocates memory and compiles what later steps use.
    steps_of_ranks = [_computed_steps(rank) for rank in recording.ranks]
    awaited = _awaited_in_step if recording.wait == "step" else _awaited_in_turns
    batches: list[_Timed] = []
    updates: list[float] = []
    for step, (before, after) in enumerate(pairwise(recording.ranks[0].step_ends), 1):
        largest = awaited([s[step] if step < len(s) else [] for s in steps_of_ranks])
        batches += largest
        # A step ends on rank 0, and its batches may be of others: the difference may be below 0.
        updates.append(max(0.0, after - before - sum(timed.seconds for timed in largest)))
    return batches, updates


def _awaited_in_turns(of_ranks: Sequence[Sequence[_Timed]]) -> list[_Timed]:
    # Of batches that ranks compute at once, the others wait for the largest.
    turns = [[timed for timed in turn if timed is not None] for turn in zip_longest(*of_ranks)]
    return [max(turn, key=_size)._replace(is_new=any(t.is_new for t in turn)) for turn in turns]


def _awaited_in_step(of_ranks: Sequence[Sequence[_Timed]]) -> list[_Timed]:
    sums = [[sum(sizes) for sizes in zip(*map(_size, each), strict=True)] for each in of_ranks]
    slowest = of_ranks[sums.index(max(sums))]
    is_new = any(timed.is_new for batches in of_ranks for timed in batches)
    return [*slowest[:-1], *(last._replace(is_new=is_new) for last in slowest[-1:])]


def _size(timed: _Timed) -> tuple[int, int]:
    return timed.shape.tokens, timed.shape.pairs


def _computed_steps(rank: RecordedRank) -> list[list[_Timed]]:
    """Return the timed batches of each step that was made."""
    steps: dict[int, list[_Timed]] = {}
    seen: set[tuple[int, int]] = set()
    for batch in rank.batches:
        if not batch.unstepped and batch.began is not None and batch.ended is not None:
            (part,) = batch.parts  # batches of several forwards were refused before
            shape = Shape(part.rows, part.width, _samples_per_row(part))
            is_new = (part.rows, part.width) not in seen
            seen.add((part.rows, part.width))
            timed = _Timed(shape, batch.ended - batch.began, is_new)
            steps.setdefault(batch.step, []).append(timed)
    return list(steps.values())


def _samples_per_row(part: ReadBatch) -> int:
    if part.real is None or all(len(row) <= 1 for row in part.real):
        return 1
    pairs = sum(length**2 for row in part.real for length in row)
    # n equal samples of a row have n x (width / n)^2 = width^2 / n pairs: n is solved for.
    # Where most of the rows is padding, that may be more than their tokens.
    return min(part.width, max(1, round(part.rows * part.width**2 / max(1, pairs))))


def _points(name: str, timed: list[_Timed], update: float) -> tuple[Point, ...]:
    """Return a point of the calibration for each group of batches of about as many tokens."""
    if of_new_shape := _seconds_of_new_shape(timed):
        timed = [batch for batch in timed if not batch.is_new]
    batches = sorted(timed, key=lambda batch: (batch.shape.tokens, batch.shape.width))
    n_points = min(len(batches) // _BATCHES_PER_POINT, _MOST_POINTS)
    if n_points < _LEAST_POINTS:
        raise InputError(
            f"{name} has times of {counted(len(batches), 'batch', 'batches')} after its first step",
            f"record at least {_LEAST_POINTS * _BATCHES_PER_POINT}",
        )
    # A point has the size of its largest batch: seconds are compared as shares of a fit of all.
    fitted = _fitted_seconds(batches, batches)
    ratios = _seconds(batches) / fitted
    groups = np.array_split(np.arange(len(batches)), n_points)
    smallest_point, largest_point = batches[groups[0][-1]].shape, batches[groups[-1][-1]].shape
    if largest_point.tokens < _LEAST_SPREAD * smallest_point.tokens:
        raise InputError(
            f"nearly all batches in {name} have about {largest_point.tokens:,} tokens, so that "
            "what tokens take cannot be told",
            "record a run whose batches differ in size, or measure with batchstat calibrate",
        )
    points = []
    for group in groups:
        largest = group[-1]  # by size
        seconds = float(np.median(ratios[group]) * fitted[largest])
        points.append(
            Point(
                **asdict(batches[largest].shape),
                seconds=seconds,
                update_seconds=update,
                first_seconds=seconds + of_new_shape,
                peak=None,
                update_peak=None,
            )
        )
    return tuple(points)


def _seconds_of_new_shape(timed: Sequence[_Timed]) -> float:
    """Return what a batch of a new shape takes beyond others; 0 where that is unknown or little."""
    # An H200 takes 0.1 s more for each new shape: of short batches, most of their time.
    new = [batch for batch in timed if batch.is_new]
    seen = [batch for batch in timed if not batch.is_new]
    sizes = sorted(batch.shape.tokens for batch in seen)
    if len(seen) < _LEAST_POINTS * _BATCHES_PER_POINT or len(new) < _BATCHES_PER_POINT:
        return 0.0
    if sizes[-1] < _LEAST_SPREAD * sizes[0]:
        return 0.0
    times, expected = _seconds(new), _fitted_seconds(seen, new)
    is_slower = float(np.median(times / expected)) >= _LEAST_SLOWDOWN
    return float(np.median(times - expected)) if is_slower else 0.0


def _seconds(batches: Sequence[_Timed]) -> Floats:
    return np.array([max(batch.seconds, 1e-6) for batch in batches])


def _fitted_seconds(measured: Sequence[_Timed], of: Sequence[_Timed]) -> Floats:
    coefficients = fit_seconds([batch.shape for batch in measured], _seconds(measured))
    return np.asarray(columns_of([batch.shape for batch in of]) @ coefficients)
