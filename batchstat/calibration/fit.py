"""Least squares with coefficients that are not negative."""

from itertools import combinations

import numpy as np
import numpy.typing as npt

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
    found, least = np.zeros(n), float(np.linalg.norm(values))
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            own = columns[:, chosen]
            scale = np.linalg.norm(own, axis=0)
            if not scale.all():
                continue
            solved = np.linalg.lstsq(own / scale, values, rcond=None)[0] / scale
            error = float(np.linalg.norm(own @ solved - values))
            if (solved >= 0).all() and error < least:
                found, least = np.zeros(n), error
                found[list(chosen)] = solved
    return found
