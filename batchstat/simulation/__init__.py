"""Lengths to a `Comparison`: every strategy planned and measured on the same epoch."""

from batchstat.simulation.comparing import (
    DEFAULT_STRATEGIES,
    best_row,
    check_seeds,
    compare,
    parse_strategies,
    simulate,
)
from batchstat.simulation.sweeping import read_aheads

__all__ = [
    "DEFAULT_STRATEGIES",
    "best_row",
    "check_seeds",
    "compare",
    "parse_strategies",
    "read_aheads",
    "simulate",
]
