"""Batch samplers that yield the plan which was simulated."""

from batchstat.training.batch_sampler import Batch, BatchSampler
from batchstat.training.samplers import ClassBalancedSampler, RankSampler, WeightedClassSampler
from batchstat.training.stream_batcher import StreamBatcher

__all__ = [
    "Batch",
    "BatchSampler",
    "ClassBalancedSampler",
    "RankSampler",
    "StreamBatcher",
    "WeightedClassSampler",
]
