"""Lengths and labels of a corpus: building them, keeping them, knowing when they are stale."""

from batchstat.profiling.build import build, counter, profile
from batchstat.profiling.cache import Cache, default_folder
from batchstat.profiling.counting import Progress
from batchstat.profiling.freshness import changes, same_input
from batchstat.profiling.record import (
    ClassCount,
    CorpusFacts,
    Labels,
    Profile,
    TokenizerFacts,
    Truncation,
)
from batchstat.profiling.stats import Histogram, LengthStats, log_edges
from batchstat.profiling.store import LENGTHS_FILE, SCHEMA, load_profile, save_lengths

__all__ = [
    "LENGTHS_FILE",
    "SCHEMA",
    "Cache",
    "ClassCount",
    "CorpusFacts",
    "Histogram",
    "Labels",
    "LengthStats",
    "Profile",
    "Progress",
    "TokenizerFacts",
    "Truncation",
    "build",
    "changes",
    "counter",
    "default_folder",
    "load_profile",
    "log_edges",
    "profile",
    "same_input",
    "save_lengths",
]
