"""From order and lengths to a `BatchPlan`: one strategy per file, listed here, pure NumPy.

A new strategy is one file and one line in `STRATEGIES`; every shared property test runs on it.
"""

from batchstat.lengths.arrays import Ints
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.boundaries import Boundaries
from batchstat.planning.strategies.bucketed import Bucketed
from batchstat.planning.strategies.dynamic_buckets import DynamicBuckets
from batchstat.planning.strategies.fixed import Fixed
from batchstat.planning.strategies.grouped import Grouped
from batchstat.planning.strategies.length_grouped import LengthGrouped
from batchstat.planning.strategies.max_tokens import MaxTokens
from batchstat.planning.strategies.packed import Packed
from batchstat.planning.strategies.padding_free import PaddingFree
from batchstat.planning.strategies.static import Static
from batchstat.planning.strategies.token_budget import TokenBudget

STRATEGIES: dict[str, type[Strategy]] = {
    "fixed": Fixed,
    "static": Static,
    "bucketed": Bucketed,
    "token-budget": TokenBudget,
    "length-grouped": LengthGrouped,
    "boundaries": Boundaries,
    "dynamic-buckets": DynamicBuckets,
    "grouped": Grouped,
    "max-tokens": MaxTokens,
    "packed": Packed,
    "padding-free": PaddingFree,
}

__all__ = ["STRATEGIES", "BatchPlan", "Ints", "Strategy", "Window"]
