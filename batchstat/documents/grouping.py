"""How far batches are from random ones: by the lengths of their samples, and by their classes."""

from typing import Annotated

from batchstat.documents.base import Document
from batchstat.parameters import described
from batchstat.records import SAME, Amount, Count, Positive, Ratio, Record, allowed, told, told_of

_ROUNDED_ONE = 1.000001
"""A correlation may exceed 1 by what rounding adds."""

_Correlation = Annotated[float, allowed(minimum=-_ROUNDED_ONE, maximum=_ROUNDED_ONE)]
_Homogeneity = Annotated[float, allowed(maximum=_ROUNDED_ONE)]


@described("How far batches are from random ones: what people see as a saw-tooth in the loss.")
class Grouping(Record):
    neighbour_correlation: _Correlation | None = told(
        "Correlation of a step's mean length with the next one's (Pearson): near 1 where batches "
        "come sorted, near 0 where they are shuffled; null for fewer than 4 steps."
    )
    length_homogeneity: _Homogeneity | None = told(
        "Ratio of the variance of lengths that lies between batches, beyond what it is in random "
        "batches (epsilon squared): 0 for random batches, 1 where every batch holds one length."
    )
    samples_per_batch_cv: Amount = told("Standard deviation / mean of the samples of a batch.")
    tokens_per_step_cv: Amount = told("Standard deviation / mean of the real tokens of a step.")


@described("The strategy with one read_ahead.")
class SweepPoint(Record):
    read_ahead: Positive
    batches: Positive
    padding_tokens: Count
    total_tokens: Count
    grouping: Grouping

    @property
    @told_of()
    def padding_ratio(self) -> Ratio:
        """Padding tokens / total tokens."""
        return self.padding_tokens / self.total_tokens


@described("Different classes of a batch.")
class ClassesPerBatch(Document):
    min: Count = told(of="min_classes")
    mean: Amount = told(of="mean_classes")
    max: Positive = told(of="max_classes")


@described("The classes of batches. A sample of several labels counts as the rarest of them.")
class Mixing(Document):
    classes_per_batch: ClassesPerBatch = told(of=SAME)
    single_class_batches: Count = told("Batches whose samples are all of one class.")
    single_class_ratio: Ratio = told("single_class_batches / batches.")
    class_homogeneity: _Homogeneity | None = told(
        "How far batching sorts the classes apart (Fleiss's kappa): 0 where batches are as mixed "
        "as random ones, 1 where every batch holds one class, below 0 where each holds the same "
        "mixture; null where there is but one class, or no batch of two samples.",
        of="homogeneity",
    )
