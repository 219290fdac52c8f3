"""How classes mix within batches."""

import numpy as np

from batchstat.documents.grouping import ClassesPerBatch, Mixing
from batchstat.lengths.arrays import Ints

_DENSE = 8
"""Table cells per entry above which sorting is cheaper."""


def class_mixing(batch: Ints, code: Ints, batches: int, classes: int) -> Mixing:
    """Count the classes of batches, of samples that have a class.

    If two random samples of a batch have the same class with probability p, and two of the epoch
    with q, the homogeneity is (p − q) / (1 − q), which is Fleiss's kappa (J. L. Fleiss, 1971) with
    batches as subjects.

    Args:
        batch: (n,) batch of each entry, ascending.
        code: (n,) class of each entry; −1 for none.
        batches: number of batches.
        classes: number of classes.
    """
    batch, code = batch[code >= 0], code[code >= 0]
    if batches * classes <= _DENSE * max(len(batch), 1):
        table = np.bincount(batch * classes + code, minlength=batches * classes)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(batch * classes + code, return_counts=True)
    different = np.bincount(cells // classes, minlength=batches)
    samples = np.bincount(batch, minlength=batches)
    squares = np.bincount(cells // classes, weights=counts * counts, minlength=batches)
    several = samples > 1
    alike = (squares[several] - samples[several]) / (samples[several] - 1)
    total = np.bincount(code, minlength=classes).astype(np.float64)
    n = total.sum()
    chance = (total * (total - 1)).sum() / (n * (n - 1)) if n > 1 else 1.0
    homogeneity = None
    if several.any() and chance < 1:
        within = alike.sum() / samples[several].sum()
        homogeneity = float((within - chance) / (1 - chance))
    return Mixing(
        ClassesPerBatch(
            batches=batches,
            sum=int(different.sum()),
            min=int(different.min()),
            max=int(different.max()),
        ),
        single_class_batches=int(np.count_nonzero(different == 1)),
        homogeneity=homogeneity,
    )
