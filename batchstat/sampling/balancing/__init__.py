"""Which samples an epoch visits where classes are balanced: one sampler a file, listed here.

A new sampler is one file and one line in `SAMPLERS`.
"""

from batchstat.sampling.balancing.count import Count
from batchstat.sampling.balancing.downsampling import Downsampling
from batchstat.sampling.balancing.dynamic import Dynamic
from batchstat.sampling.balancing.natural import Natural
from batchstat.sampling.balancing.per_batch import PerBatch
from batchstat.sampling.balancing.sampler import Sampler
from batchstat.sampling.balancing.upsampling import Upsampling
from batchstat.sampling.balancing.weighted_random import WeightedRandom
from batchstat.sampling.balancing.weights import Weights

SAMPLERS: dict[str, type[Sampler]] = {
    "none": Natural,
    "downsampling": Downsampling,
    "upsampling": Upsampling,
    "count": Count,
    "weights": Weights,
    "dynamic": Dynamic,
    "per-batch": PerBatch,
    "weighted-random": WeightedRandom,
}

__all__ = ["SAMPLERS", "Sampler"]
