"""`weights`: classes in given proportions."""

from collections.abc import Mapping
from dataclasses import dataclass

from batchstat.errors import InputError, OptionError
from batchstat.parameters import described, parameter
from batchstat.planning.classes import Classes, not_there
from batchstat.planning.samplers.draws import round_shares
from batchstat.planning.samplers.per_class import PerClassSampler
from batchstat.words import short


@described(
    """Classes share `length` samples (by default as many as the corpus has) in proportion to their
    weights, rounded so that the total is exact (largest remainder). A class without a weight gets
    none. A class with too few samples is drawn from with replacement; `even` as in upsampling.
    """
)
@dataclass(frozen=True, kw_only=True)
class Weights(PerClassSampler):
    weights: Mapping[str, float] = parameter(
        "Each class with its weight: its share of the samples is in proportion."
    )
    length: int | None = None
    even: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.weights:
            raise OptionError("weights={}", "name a class, as in weights=positive:1,negative:3")
        for label, weight in self.weights.items():
            # True would count as 1, and NaN fails the comparison below.
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise OptionError(f"weights: {label}:{short(weight)}", "must be a number")
            if not 0 <= weight <= 10**18:
                raise OptionError(
                    f"weights: {label}:{weight}", "must be 0 or more, and at most 1e18"
                )
        if not any(self.weights.values()):
            raise OptionError("weights: all are 0, which draws nothing", "set at least one above 0")

    def counts(self, classes: Classes, epoch: int) -> list[int]:  # noqa: ARG002
        """Divide `length` by weight. Raises InputError: a weight for a class that is not there."""
        for label in self.weights:
            if label not in classes.names:
                suggestion = not_there(label, classes.names)
                raise InputError(f"weights: no sample is of class {label!r}{suggestion}")
        shares = [self.weights.get(name, 0) for name in classes.names]
        return round_shares(shares, self.length or int(classes.sizes.sum()))
