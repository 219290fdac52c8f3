"""`ClassMixing`: how classes mix within batches."""

from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import Ints

_DENSE = 8
"""Table cells per entry above which sorting is cheaper."""


@dataclass(frozen=True)
class ClassMixing:
    """How classes mix within batches, for samples that have a class.

    Attributes:
        batches: number of batches.
        min_classes: fewest distinct classes in any batch.
        sum_classes: sum over batches of their distinct classes.
        max_classes: most distinct classes in any batch.
        single_class_batches: number of batches with one class.
        homogeneity: 0 if batches are as mixed as random ones, 1 if each holds one class, below 0 if
            classes are spread more evenly than by chance; None if there is only one class, or no
            batch of two samples. If two random samples of a batch have the same class with
            probability p, and two of the epoch with q, it is (p − q) / (1 − q), which is Fleiss's
            kappa (J. L. Fleiss, 1971) with batches as subjects.
    """

    batches: int
    min_classes: int
    sum_classes: int
    max_classes: int
    single_class_batches: int
    homogeneity: float | None

    @property
    def mean_classes(self) -> float:
        """Mean distinct classes per batch."""
        return self.sum_classes / self.batches

    @property
    def single_class_ratio(self) -> float:
        """Batches with one class / batches."""
        return self.single_class_batches / self.batches

    @classmethod
    def of(cls, batch: Ints, code: Ints, batches: int, classes: int) -> "ClassMixing":
        """Count the classes of batches.

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
        return cls(
            batches=batches,
            min_classes=int(different.min()),
            sum_classes=int(different.sum()),
            max_classes=int(different.max()),
            single_class_batches=int(np.count_nonzero(different == 1)),
            homogeneity=homogeneity,
        )
