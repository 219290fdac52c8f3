"""How classes mix within batches."""

import numpy as np

from batchstat.documents.grouping import ClassesPerBatch, Mixing
from batchstat.lengths.arrays import Ints


def class_mixing(batch: Ints, code: Ints, batches: int, classes: int) -> Mixing:
    """Measure how well batches mix the classes, by the batch, ascending, and the class of each of
    (n,) entries. Those without a class (−1) do not count.

    Let p be the probability that two random samples of one batch have the same class, and q that of
    two random samples of the epoch. The homogeneity is (p − q) / (1 − q): 0 if batches are as mixed
    as random ones, 1 if each has one class. This is Fleiss's kappa (J. L. Fleiss, 1971) with
    batches as subjects.
    """
    batch, code = batch[code >= 0], code[code >= 0]
    # The table of batches × classes, row after row: its cells that are not 0, and their counts.
    # With more cells per entry than 8, that takes longer than sorting.
    if batches * classes <= 8 * len(batch):
        table = np.bincount(batch * classes + code, minlength=batches * classes)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(batch * classes + code, return_counts=True)
    classes_in_batch = np.bincount(cells // classes, minlength=batches)
    samples = np.bincount(batch, minlength=batches)
    squares = np.bincount(cells // classes, weights=counts * counts, minlength=batches)
    has_pairs = samples > 1
    # Of each batch with two samples or more, its samples × the probability that two of them have
    # the same class: among n samples, the sum of count × (count − 1) over its classes / (n − 1).
    same_class = (squares[has_pairs] - samples[has_pairs]) / (samples[has_pairs] - 1)
    # (n_classes,) samples of each class in the epoch, and of all classes.
    class_samples = np.bincount(code, minlength=classes).astype(np.float64)
    n = class_samples.sum()
    q = (class_samples * (class_samples - 1)).sum() / (n * (n - 1)) if n > 1 else 1.0
    homogeneity = None
    # With one class alone (q is 1), or no two samples in any batch, nothing is mixed.
    if has_pairs.any() and q < 1:
        p = same_class.sum() / samples[has_pairs].sum()
        homogeneity = float((p - q) / (1 - q))
    return Mixing(
        ClassesPerBatch(
            batches=batches,
            sum=int(classes_in_batch.sum()),
            min=int(classes_in_batch.min()),
            max=int(classes_in_batch.max()),
        ),
        single_class_batches=int(np.count_nonzero(classes_in_batch == 1)),
        homogeneity=homogeneity,
    )
