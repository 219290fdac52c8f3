"""Batch samplers that yield the plan which was simulated."""

from batchstat.training.batch_sampler import BatchSampler
from batchstat.training.rank_batches import Batch
from batchstat.training.reading import read_samples
from batchstat.training.samplers import ClassBalancedSampler, RankSampler, WeightedClassSampler
from batchstat.training.stream_batcher import StreamBatcher

__all__ = [
    "Batch",
    "BatchSampler",
    "ClassBalancedSampler",
    "RankSampler",
    "StreamBatcher",
    "WeightedClassSampler",
    "read_samples",
]
