"""Lengths to a `Comparison`: every strategy planned and measured on the same epoch."""

from batchstat.simulation.balancing import (
    DEFAULT_EPOCHS,
    DEFAULT_SAMPLERS,
    balance,
    check_epochs,
)
from batchstat.simulation.comparing import (
    DEFAULT_STRATEGIES,
    check_seeds,
    compare,
    parse_strategies,
    simulate,
)
from batchstat.simulation.estimating import check_share, read_share
from batchstat.simulation.sweeping import read_aheads

__all__ = [
    "DEFAULT_EPOCHS",
    "DEFAULT_SAMPLERS",
    "DEFAULT_STRATEGIES",
    "balance",
    "check_epochs",
    "check_seeds",
    "check_share",
    "compare",
    "parse_strategies",
    "read_aheads",
    "read_share",
    "simulate",
]
