"""The fits of a calibration: least squares with coefficients that are not negative."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from batchstat.calibration.calibration import MemoryFit, Point, TimeFit
from batchstat.calibration.setup import Setup

Floats = npt.NDArray[np.float64]


def non_negative_least_squares(columns: Floats, values: Floats) -> Floats:
    """Return the coefficients c >= 0 that minimize |columns @ c - values|.

    The minimum is that of ordinary least squares for some subset of the columns, the others at 0:
    all subsets are tried, which is exact for the few columns here (Lawson and Hanson, Solving Least
    Squares Problems, 1974, chapter 23, finds the subset by steps).

    Args:
        columns: (n_values, n_columns) at most some ten columns.
        values: (n_values,) what they should sum to.
    """
    n = columns.shape[1]
    coefficients, least = np.zeros(n), float(np.linalg.norm(values))
    for size in range(1, n + 1):
        for subset in combinations(range(n), size):
            columns_of_subset = columns[:, subset]
            scale = np.linalg.norm(columns_of_subset, axis=0)
            if not scale.all():
                continue
            solved = np.linalg.lstsq(columns_of_subset / scale, values, rcond=None)[0] / scale
            error = float(np.linalg.norm(columns_of_subset @ solved - values))
            if (solved >= 0).all() and error < least:
                coefficients, least = np.zeros(n), error
                coefficients[list(subset)] = solved
    return coefficients


def fit_calibration(
    points: Sequence[Point], setup: Setup, fixed: int | None, gradients: int | None = None
) -> tuple[TimeFit, MemoryFit | None]:
    """Return the fits of seconds and bytes, by non-negative least squares.

    Seconds are weighted by what was measured, so that each point's relative error counts; bytes are
    not, since what has to fit are the largest.

    Args:
        points: at least one.
        setup: whether shapes are compiled.
        fixed: bytes that weights and optimizer state take before a step; None where not known.
        gradients: bytes of gradients; None where not known.
    """
    shapes = [point.shape for point in points]
    columns = np.array([[1.0, shape.tokens, shape.pairs] for shape in shapes])
    seconds = np.array([point.seconds for point in points])
    fitted = non_negative_least_squares(columns / seconds[:, None], np.ones(len(points)))
    residual, worst = _residual(columns @ fitted, seconds, int(np.count_nonzero(fitted)))
    firsts = [point.first_seconds - point.seconds for point in points]
    time = TimeFit(
        per_step=float(np.median([point.update_seconds for point in points])),
        per_batch=float(fitted[0]),
        per_token=float(fitted[1]),
        per_pair=float(fitted[2]),
        per_shape=max(0.0, float(np.median(firsts))) if setup.compile else 0.0,
        residual=residual,
        worst=worst,
    )
    return time, None if fixed is None else _fit_memory(points, columns, fixed, gradients)


def _fit_memory(
    points: Sequence[Point], columns: Floats, fixed: int, gradients: int | None
) -> MemoryFit:
    peaks = np.array([point.peak or 0 for point in points], dtype=np.float64)
    fitted = non_negative_least_squares(columns, np.maximum(peaks - fixed, 0.0))
    residual, worst = _residual(fixed + columns @ fitted, peaks, int(np.count_nonzero(fitted)))
    return MemoryFit(
        fixed=fixed + round(fitted[0]),
        per_token=float(fitted[1]),
        per_pair=float(fitted[2]),
        least=max(point.update_peak or 0 for point in points),
        gradients=gradients,
        residual=residual,
        worst=worst,
    )


def _residual(fitted: Floats, measured: Floats, coefficients: int) -> tuple[float, float]:
    off = np.abs(fitted - measured) / measured
    freedom = max(1, len(measured) - coefficients)
    return float(np.sqrt((off**2).sum() / freedom)), float(off.max())
