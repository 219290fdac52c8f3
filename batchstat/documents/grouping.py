"""How far batches are from random ones: by the lengths of their samples, and by their classes."""

from typing import Annotated

from batchstat.parameters import described, with_parameter
from batchstat.records import Amount, Count, Positive, Ratio, Record, allowed, told, told_of, untold

_ENOUGH = 0.005
"""A `read_ahead` whose padding ratio is within this of the best counts as equally good."""

_ROUNDED_ONE = 1.000001  # a correlation may exceed 1 by what rounding adds

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


@described("Padding against read_ahead, all else equal.")
class Sweep(Record):
    spec: str = told("The strategy, as it is written.", key="strategy")
    points: Annotated[tuple[SweepPoint, ...], allowed(minItems=1)] = told(
        "One per read_ahead that was tried."
    )

    @property
    def best(self) -> SweepPoint:
        """The point with the least padding."""
        return min(self.points, key=lambda point: point.padding_ratio)

    @property
    def recommended(self) -> SweepPoint:
        """The smallest `read_ahead` whose padding is within half a percentage point of the best."""
        limit = self.best.padding_ratio + _ENOUGH
        return next(point for point in self.points if point.padding_ratio <= limit)

    @property
    @told_of(
        "The strategy with the smallest read_ahead whose padding is within half a point of the "
        "best.",
        key="recommended",
    )
    def recommended_spec(self) -> str:
        return with_parameter(self.spec, "read_ahead", self.recommended.read_ahead)


@described("Different classes of a batch.")
class ClassesPerBatch(Record):
    batches: int = untold()
    sum: int = untold()
    min: Count
    max: Positive

    @property
    @told_of(after="min")
    def mean(self) -> Amount:
        """Mean over the batches."""
        return self.sum / self.batches


@described("The classes of batches. A sample of several labels counts as the rarest of them.")
class Mixing(Record):
    classes_per_batch: ClassesPerBatch
    single_class_batches: Count = told("Batches whose samples are all of one class.")
    homogeneity: _Homogeneity | None = told(
        "How far batching sorts the classes apart (Fleiss's kappa): 0 where batches are as mixed "
        "as random ones, 1 where every batch holds one class, below 0 where each holds the same "
        "mixture; null where there is but one class, or no batch of two samples.",
        key="class_homogeneity",
    )

    @property
    @told_of("single_class_batches / batches.", after="single_class_batches")
    def single_class_ratio(self) -> Ratio:
        return self.single_class_batches / self.classes_per_batch.batches
