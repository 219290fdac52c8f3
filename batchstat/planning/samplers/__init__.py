"""Samplers, which choose samples by class: a new one is one file and one line in `SAMPLERS`."""

from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.dynamic import Dynamic
from batchstat.planning.samplers.per_batch import PerBatch
from batchstat.planning.samplers.per_class import Count, Downsampling, NoSampling, Upsampling
from batchstat.planning.samplers.weighted_random import WeightedRandom
from batchstat.planning.samplers.weights import Weights

SAMPLERS: dict[str, type[Sampler]] = {
    "none": NoSampling,
    "downsampling": Downsampling,
    "upsampling": Upsampling,
    "count": Count,
    "weights": Weights,
    "dynamic": Dynamic,
    "per-batch": PerBatch,
    "weighted-random": WeightedRandom,
}

__all__ = ["SAMPLERS", "Sampler"]
