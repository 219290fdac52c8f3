"""The times of a recorded run as a calibration, by the model of `calibrate`.

What a run took holds all that a step of it does, so that nothing has to be known of its ranks, how
they communicate, or what a step accumulates. It was not made to be measured, though: batches come
as they come, and some meet a stall. So batches of about the same size are one point, at the median
of what they took.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from batchstat.calibration.calibration import (
    MOST_NOISE,
    Calibration,
    Hardware,
    Point,
    load_calibration,
)
from batchstat.calibration.fit import fit_calibration, non_negative_least_squares
from batchstat.calibration.setup import Setup
from batchstat.calibration.shapes import Shape
from batchstat.errors import InputError, counted
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recording import RecordedRank, Recording, read_recording
from batchstat.storage.addresses import local_path

_PER_POINT = 5
"""Batches of a point at least, so that a stall is not its median."""
_LEAST_POINTS, _MOST_POINTS = 4, 24
"""One more than the coefficients of a batch's time; more than these do not make it better known."""
_LEAST_SPREAD = 1.5
"""Tokens of the largest point / of the smallest, below which what a token costs cannot be told from
what a batch costs.
"""


class _Timed(NamedTuple):
    """A batch and the seconds of its forward and backward."""

    shape: Shape
    seconds: float


def read_calibration(calibration: Calibration | str | Path) -> tuple[Calibration, str | None]:
    """Return a calibration and its file, by that file or the folder of a recorded run.

    Raises:
        InputError: a file that cannot be read, or a recorded run whose times cannot be used.
    """
    if isinstance(calibration, Calibration):
        return calibration, None
    path: str | Path = calibration
    if hasattr(path, "open") or isinstance(path, str):
        path = local_path(path)
    # Path.is_dir raises OSError for a name that is too long; a calibration says what it is.
    is_run = isinstance(path, Path) and os.path.isdir(path)  # noqa: PTH112
    found = recorded_calibration(read_recording(Path(path))) if is_run else load_calibration(path)
    return found, Path(path).as_posix()


def times_of(recording: Recording) -> Calibration | None:
    """Return what batches took in a recorded run; None where that cannot be told."""
    try:
        return recorded_calibration(recording)
    except InputError:
        return None


def recorded_calibration(recording: Recording) -> Calibration:
    """Return what batches took in a recorded run.

    The seconds of a batch are those of its forward and backward on the rank that computes most,
    since the others wait for it; those of a step are what else it took, from the end of the one
    before: loading, communication and the optimizer's update.

    Raises:
        InputError: nothing was computed or too little, all batches are about as large, have several
            forwards, or their times are too far from the fitted ones.
    """
    name = recording.folder.as_posix()
    if not recording.ranks:
        raise InputError(f"{name}: nothing was recorded: {recording.why_nothing}")
    if recording.is_dry:
        raise InputError(f"{name} has no times: it was a dry run: record one that trains")
    if any(len(batch.parts) > 1 for rank in recording.ranks for batch in rank.batches):
        raise InputError(
            f"{name} has no times of batches: a backward computes several forwards: measure them "
            "with batchstat calibrate"
        )
    batches, updates = _times(recording.ranks)
    if not updates:
        raise InputError(f"{name} has no times: fewer than two steps were computed")
    points = _points(name, batches, median(updates))
    first = recording.ranks[0]
    setup = Setup(model=str(first.begun["program"]) or "a command", is_recorded=True)
    time, _ = fit_calibration(points, setup, fixed=None)
    if time.residual > MOST_NOISE:
        raise InputError(
            f"the times in {name} are ±{time.residual:.0%} from what batches of their size should "
            f"take, and {MOST_NOISE:.0%} is the most: record on an idle device, or measure with "
            "batchstat calibrate"
        )
    versions = {"torch": str(first.begun["torch"]), "python": str(first.begun["python"])}
    return Calibration(
        created=str(recording.facts["created"]),
        setup=setup,
        hardware=Hardware(
            device=first.device or "cpu", name=first.device or "cpu", memory=None, versions=versions
        ),
        points=points,
        time=time,
        memory=None,
        fits=None,
    )


def _times(ranks: Sequence[RecordedRank]) -> tuple[list[_Timed], list[float]]:
    """Return what was timed after the first step, which prepares what later ones find: of each turn
    of the ranks the batch that the others wait for, and the seconds of each step beyond these.
    """
    of_ranks = [_computed_steps(rank) for rank in ranks]
    periods = [after - before for before, after in pairwise(ranks[0].step_ends)]
    batches: list[_Timed] = []
    updates: list[float] = []
    for step, period in enumerate(periods, 1):
        turns = zip_longest(*(steps.get(step, []) for steps in of_ranks))
        slowest = [
            max(filter(None, turn), key=lambda each: (each.shape.tokens, each.shape.pairs))
            for turn in turns
        ]
        batches += slowest
        updates.append(max(0.0, period - sum(each.seconds for each in slowest)))
    return batches, updates


def _computed_steps(rank: RecordedRank) -> dict[int, list[_Timed]]:
    """Return the batches of each step that was computed, counted from the first one."""
    steps: dict[int, list[_Timed]] = {}
    for batch in rank.batches:
        if batch.began is not None and batch.ended is not None:
            (part,) = batch.parts
            shape = Shape(part.rows, part.width, _samples_per_row(part))
            timed = _Timed(shape, batch.ended - batch.began)
            steps.setdefault(batch.step - rank.batches[0].step, []).append(timed)
    return steps


def _samples_per_row(part: ReadBatch) -> int:
    """Return how many equal samples of a row have as many pairs of tokens as those that it has."""
    if part.real is None or all(len(row) == 1 for row in part.real):
        return 1
    squares = sum(length**2 for row in part.real for length in row)
    return max(1, round(part.rows * part.width**2 / squares)) if squares else 1


def _points(name: str, timed: list[_Timed], update: float) -> tuple[Point, ...]:
    """Return batches of about as many tokens as a point each.

    Args:
        name: of the recording, for messages.
        timed: the batches.
        update: seconds of an optimizer's update.

    Raises:
        InputError: too few batches, or all of about the same size.
    """
    batches = sorted(timed, key=lambda each: (each.shape.tokens, each.shape.width))
    number = min(len(batches) // _PER_POINT, _MOST_POINTS)
    if number < _LEAST_POINTS:
        raise InputError(
            f"{name} has times of {counted(len(batches), 'batch', 'batches')} after its first "
            f"step: record at least {_LEAST_POINTS * _PER_POINT}"
        )
    # Of what its size should take, so that a point is at the size of its largest batch.
    tokens = np.array([each.shape.tokens for each in batches], dtype=np.float64)
    pairs = np.array([each.shape.pairs for each in batches], dtype=np.float64)
    took = np.array([max(each.seconds, 1e-6) for each in batches])  # a clock may not have moved
    columns = np.stack([np.ones(len(batches)), tokens, pairs], axis=1)
    fitted = columns @ non_negative_least_squares(columns / took[:, None], np.ones(len(batches)))
    ratios = took / fitted
    groups = np.array_split(np.arange(len(batches)), number)
    small, large = batches[groups[0][-1]].shape, batches[groups[-1][-1]].shape
    if large.tokens < _LEAST_SPREAD * small.tokens:
        raise InputError(
            f"nearly all batches in {name} have about {large.tokens:,} tokens, so that what tokens "
            "take cannot be told: record a run whose batches differ in size, or measure with "
            "batchstat calibrate"
        )
    points = []
    for group in groups:
        shape = batches[group[-1]].shape
        seconds = float(np.median(ratios[group]) * fitted[group[-1]])
        points.append(
            Point(
                **asdict(shape),
                seconds=seconds,
                update_seconds=update,
                first_seconds=seconds,
                peak=None,
                update_peak=None,
            )
        )
    return tuple(points)
