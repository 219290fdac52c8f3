"""The fits of a calibration: least squares without negative coefficients, as all are costs."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from batchstat.calibration.measured import MemoryFit, Point, Shape, TimeFit
from batchstat.lengths.arrays import Floats

_LEAST_SLOWDOWN = 1.1
"""Three of four shapes take this many times as long at first where new shapes cost time at all: a
first run also finds caches cold, whatever its shape."""


def non_negative_least_squares(columns: Floats, values: Floats) -> Floats:
    """Return (n_columns,) coefficients c >= 0 that minimize |columns @ c - values|. The minimum is
    that of ordinary least squares for some subset of the columns, the others at 0: all subsets are
    tried, which is exact for the few columns here (Lawson and Hanson, Solving Least Squares
    Problems, 1974, chapter 23, finds the subset by steps).
    """
    n = columns.shape[1]
    coefficients, smallest_error = np.zeros(n), float(np.linalg.norm(values))
    for size in range(1, n + 1):
        for subset in combinations(range(n), size):
            columns_of_subset = columns[:, subset]
            # Scaled to length 1, as columns of pairs are millions of times those of a constant.
            scale = np.linalg.norm(columns_of_subset, axis=0)
            if not scale.all():  # a column of zeros has no coefficient
                continue
            solution = np.linalg.lstsq(columns_of_subset / scale, values, rcond=None)[0] / scale
            error = float(np.linalg.norm(columns_of_subset @ solution - values))
            if (solution >= 0).all() and error < smallest_error:
                coefficients, smallest_error = np.zeros(n), error
                coefficients[list(subset)] = solution
    return coefficients


def columns_of(shapes: Sequence[Shape]) -> Floats:
    """Return (n_shapes, 3) numbers: a batch, its tokens and its pairs, each to be given a cost."""
    return np.array([[1.0, shape.tokens, shape.pairs] for shape in shapes])


def fit_seconds(shapes: Sequence[Shape], seconds: Floats) -> Floats:
    """Return (3,) seconds of a batch, a token and a pair, with which relative errors are least."""
    # Divided by the measured seconds, every batch should come to 1.
    return non_negative_least_squares(columns_of(shapes) / seconds[:, None], np.ones(len(seconds)))


def fit_calibration(
    points: Sequence[Point], fixed: int | None, gradients: int | None = None
) -> tuple[TimeFit, MemoryFit | None]:
    """Return the fits of a batch's seconds and bytes, the second None where `fixed` is None.
    Relative errors count for seconds, not for bytes: the largest batches decide what fits.
    """
    shapes = [point.shape for point in points]
    columns = columns_of(shapes)
    seconds = np.array([point.seconds for point in points])
    coefficients = fit_seconds(shapes, seconds)
    residual, worst = _residual(columns @ coefficients, seconds, coefficients)
    first_seconds = np.array([point.first_seconds for point in points])
    per_shape = 0.0
    # torch.compile compiles each shape. Without it, an H200 took 0.11 s more for each (torch 2.11,
    # sdpa with a mask): there cuDNN's attention, which torch prefers, plans each shape.
    if float(np.quantile(first_seconds / seconds, 0.25)) >= _LEAST_SLOWDOWN:
        # The median: a few first runs also allocate memory, for more than a second.
        per_shape = max(0.0, float(np.median(first_seconds - seconds)))
    time = TimeFit(
        per_step=float(np.median([point.update_seconds for point in points])),
        per_batch=float(coefficients[0]),
        per_token=float(coefficients[1]),
        per_pair=float(coefficients[2]),
        per_shape=per_shape,
        residual=residual,
        worst=worst,
    )
    if fixed is None:
        return time, None
    peaks = np.array([point.peak or 0 for point in points], dtype=np.float64)
    coefficients = non_negative_least_squares(columns, np.maximum(peaks - fixed, 0.0))
    residual, worst = _residual(fixed + columns @ coefficients, peaks, coefficients)
    memory = MemoryFit(
        fixed=fixed + round(coefficients[0]),  # bytes of a batch come on top, however small it is
        per_token=float(coefficients[1]),
        per_pair=float(coefficients[2]),
        least=max(point.update_peak or 0 for point in points),
        gradients=gradients,
        residual=residual,
        worst=worst,
    )
    return time, memory


def _residual(fitted: Floats, measured: Floats, coefficients: Floats) -> tuple[float, float]:
    # The mean is over the degrees of freedom: points less the coefficients that were fitted.
    errors = np.abs(fitted - measured) / measured
    freedom = max(1, len(measured) - int(np.count_nonzero(coefficients)))
    return float(np.sqrt((errors**2).sum() / freedom)), float(errors.max())
