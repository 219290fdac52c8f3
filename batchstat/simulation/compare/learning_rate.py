"""How the learning rate may scale where the number of samples per step changes."""

from batchstat.documents.comparison import LearningRateHint
from batchstat.simulation.meters.counts import PlanCounts

LINEAR_SOURCE = "for SGD: Goyal et al. 2017"
SQUARE_ROOT_SOURCE = "Krizhevsky 2014; for Adam: Malladi et al. 2022"


def learning_rate_hint(current: PlanCounts, new: PlanCounts) -> LearningRateHint:
    """Return the hint for changing from one strategy to another: each step is taken as if it had
    the mean number of samples.

    Example:
        >>> hint = LearningRateHint(batch_ratio=4.0)
        >>> hint.linear, hint.square_root
        (4.0, 2.0)
    """
    # Products of whole numbers are divided once, so that equal strategies give exactly 1.
    ratio = (new.samples * current.begun_steps) / (current.samples * new.begun_steps)
    return LearningRateHint(ratio)
