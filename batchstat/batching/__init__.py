"""Order and lengths to a `BatchPlan`: one strategy a file, listed here, pure NumPy.

A new strategy is one file and one line in `STRATEGIES`; every shared property test runs on it.
"""

from batchstat.batching.boundaries import Boundaries
from batchstat.batching.bucketed import Bucketed
from batchstat.batching.dynamic_buckets import DynamicBuckets
from batchstat.batching.fixed import Fixed
from batchstat.batching.grouped import Grouped
from batchstat.batching.length_grouped import LengthGrouped
from batchstat.batching.max_tokens import MaxTokens
from batchstat.batching.packed import Packed
from batchstat.batching.padding_free import PaddingFree
from batchstat.batching.plan import BatchPlan, Ints, Window
from batchstat.batching.static import Static
from batchstat.batching.strategy import Strategy
from batchstat.batching.token_budget import TokenBudget

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
