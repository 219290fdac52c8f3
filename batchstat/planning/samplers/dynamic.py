"""`dynamic`: from the corpus's own classes to balanced ones, epoch by epoch."""

import math
from dataclasses import dataclass

from batchstat.errors import OptionError
from batchstat.parameters import described, parameter
from batchstat.planning.classes import Classes
from batchstat.planning.samplers.per_class import PerClassSampler

_ROUNDING = 1e-9  # (size / smallest) ** 1 * smallest may be a little less than the size


@described(
    """A class with d times as many samples as the smallest gets d^(decay^epoch) times as many, at
    most `cap` times, without replacement: unchanged in epoch 0, balanced in the end.

    Source: Catalyst's DynamicBalanceClassSampler, whose first epoch is the second one here, as its
    counter is one ahead.
    """
)
@dataclass(frozen=True, kw_only=True)
class Dynamic(PerClassSampler):
    decay: float = parameter(
        "How fast the classes become balanced: the exponent of their ratio is decay^epoch.", 0.9
    )
    cap: float | None = parameter(
        "How many times as often as the smallest class another is drawn at most.", None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.decay <= 1:
            raise OptionError(f"decay={self.decay}", "must be above 0 and at most 1")
        if self.cap is not None and not (math.isfinite(self.cap) and self.cap >= 1):
            raise OptionError(f"cap={self.cap}", "must be at least 1, and finite")

    def counts(self, classes: Classes, epoch: int) -> list[int]:
        """Return the number of samples of each class in this epoch."""
        smallest = int(classes.sizes.min())
        # 1 in epoch 0, so that each class keeps its size; towards 0, all have the smallest size.
        exponent = self.decay**epoch
        max_ratio = math.inf if self.cap is None else self.cap
        return [
            int(min((size / smallest) ** exponent, max_ratio) * smallest + _ROUNDING)
            for size in classes.sizes.tolist()
        ]
