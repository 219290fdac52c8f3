"""Lengths and labels of a corpus: building them, keeping them, knowing when they are stale."""

from batchstat.profiling.build import counter, profile
from batchstat.profiling.conduct import Conduct, build, count_shard
from batchstat.profiling.freshness import changes, same_input
from batchstat.profiling.meter import Progress
from batchstat.profiling.part_store import PartStore, default_folder
from batchstat.profiling.record import (
    ClassCount,
    CorpusFacts,
    Labels,
    Profile,
    TokenizerFacts,
    Truncation,
)
from batchstat.profiling.running import Outcome
from batchstat.profiling.shards import (
    PARTS_FOLDER,
    SHARD_FILE,
    SHARD_SCHEMA,
    Shard,
    Share,
    merge_shards,
)
from batchstat.profiling.store import LENGTHS_FILE, load_profile, save_lengths
from batchstat.stats import Histogram, LengthStats, log_edges

__all__ = [
    "LENGTHS_FILE",
    "PARTS_FOLDER",
    "SHARD_FILE",
    "SHARD_SCHEMA",
    "ClassCount",
    "Conduct",
    "CorpusFacts",
    "Histogram",
    "Labels",
    "LengthStats",
    "Outcome",
    "PartStore",
    "Profile",
    "Progress",
    "Shard",
    "Share",
    "TokenizerFacts",
    "Truncation",
    "build",
    "changes",
    "count_shard",
    "counter",
    "default_folder",
    "load_profile",
    "log_edges",
    "merge_shards",
    "profile",
    "same_input",
    "save_lengths",
]
