"""How much of a text corpus's compute is padding, and which batching strategy fixes it.

    import batchstat

    profile = batchstat.profile("corpus.txt", tokenizer="bert-base-cased")
    comparison = batchstat.compare(profile, tokens_per_batch=16_384)
    print(comparison.to_frame())

Importing batchstat loads none of what it needs: that loads where it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchstat.batching.plan import BatchPlan
    from batchstat.buckets import find_buckets
    from batchstat.corpus.options import CorpusOptions
    from batchstat.costs import CostModel, load_model
    from batchstat.errors import BatchstatError, InputError, OptionError
    from batchstat.profiling import Profile, profile
    from batchstat.report import Comparison
    from batchstat.settings import Settings
    from batchstat.simulation import balance, compare
    from batchstat.tokens import token_lengths
    from batchstat.training import (
        BatchSampler,
        ClassBalancedSampler,
        RankSampler,
        StreamBatcher,
        WeightedClassSampler,
        read_samples,
    )

__version__ = "0.1.0"

__all__ = [
    "BatchPlan",
    "BatchSampler",
    "BatchstatError",
    "ClassBalancedSampler",
    "Comparison",
    "CorpusOptions",
    "CostModel",
    "InputError",
    "OptionError",
    "Profile",
    "RankSampler",
    "Settings",
    "StreamBatcher",
    "WeightedClassSampler",
    "__version__",
    "balance",
    "compare",
    "find_buckets",
    "load_model",
    "profile",
    "read_samples",
    "token_lengths",
]

_HOMES = {
    "BatchPlan": "batchstat.batching.plan",
    "BatchSampler": "batchstat.training",
    "ClassBalancedSampler": "batchstat.training",
    "RankSampler": "batchstat.training",
    "StreamBatcher": "batchstat.training",
    "WeightedClassSampler": "batchstat.training",
    "BatchstatError": "batchstat.errors",
    "Comparison": "batchstat.report",
    "CorpusOptions": "batchstat.corpus.options",
    "CostModel": "batchstat.costs",
    "InputError": "batchstat.errors",
    "OptionError": "batchstat.errors",
    "Profile": "batchstat.profiling",
    "Settings": "batchstat.settings",
    "balance": "batchstat.simulation",
    "compare": "batchstat.simulation",
    "find_buckets": "batchstat.buckets",
    "load_model": "batchstat.costs",
    "profile": "batchstat.profiling",
    "read_samples": "batchstat.training",
    "token_lengths": "batchstat.tokens",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'batchstat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
