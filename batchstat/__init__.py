"""How much of a text corpus's compute is padding, and which batching strategy fixes it.

    import batchstat

    profile = batchstat.profile("corpus.txt", tokenizer="bert-base-cased")
    comparison = batchstat.compare(profile, tokens_per_batch=16_384)
    print(comparison.to_frame())

Importing batchstat loads none of what it needs: that loads where it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from batchstat._version import __version__

if TYPE_CHECKING:
    from batchstat.calibration.calibrate import calibrate
    from batchstat.calibration.calibration import Calibration, load_calibration
    from batchstat.calibration.cost_model import CostModel, load_model
    from batchstat.calibration.memory_estimate import estimate_memory
    from batchstat.corpus.options import CorpusOptions
    from batchstat.errors import BatchstatError, InputError, OptionError
    from batchstat.gate.check import check
    from batchstat.gate.saving import save_baseline
    from batchstat.planning.plan import BatchPlan
    from batchstat.planning.settings import Settings
    from batchstat.profiling.build import profile
    from batchstat.profiling.profile import Profile
    from batchstat.profiling.shards import merge
    from batchstat.render.html.report import to_html
    from batchstat.render.plots.pictures import plot
    from batchstat.render.printed import show
    from batchstat.simulation.compare.comparison import Comparison
    from batchstat.tokenization.token_lengths import token_lengths
    from batchstat.trainers.balance import balance
    from batchstat.trainers.buckets import find_buckets
    from batchstat.trainers.compare import compare
    from batchstat.trainers.measure import measure
    from batchstat.trainers.preflight.preflight import Preflight, preflight
    from batchstat.trainers.preflight.recorded import record, run
    from batchstat.training.batch_sampler import BatchSampler
    from batchstat.training.reading import read_samples
    from batchstat.training.samplers import ClassBalancedSampler, RankSampler, WeightedClassSampler
    from batchstat.training.stream_batcher import StreamBatcher


__all__ = [
    "BatchPlan",
    "BatchSampler",
    "BatchstatError",
    "Calibration",
    "ClassBalancedSampler",
    "Comparison",
    "CorpusOptions",
    "CostModel",
    "InputError",
    "OptionError",
    "Preflight",
    "Profile",
    "RankSampler",
    "Settings",
    "StreamBatcher",
    "WeightedClassSampler",
    "__version__",
    "balance",
    "calibrate",
    "check",
    "compare",
    "estimate_memory",
    "find_buckets",
    "load_calibration",
    "load_model",
    "measure",
    "merge",
    "plot",
    "preflight",
    "profile",
    "read_samples",
    "record",
    "run",
    "save_baseline",
    "show",
    "to_html",
    "token_lengths",
]

_HOMES = {
    "BatchPlan": "batchstat.planning.plan",
    "BatchSampler": "batchstat.training.batch_sampler",
    "ClassBalancedSampler": "batchstat.training.samplers",
    "RankSampler": "batchstat.training.samplers",
    "StreamBatcher": "batchstat.training.stream_batcher",
    "WeightedClassSampler": "batchstat.training.samplers",
    "BatchstatError": "batchstat.errors",
    "Comparison": "batchstat.simulation.compare.comparison",
    "CorpusOptions": "batchstat.corpus.options",
    "Calibration": "batchstat.calibration.calibration",
    "CostModel": "batchstat.calibration.cost_model",
    "InputError": "batchstat.errors",
    "OptionError": "batchstat.errors",
    "Profile": "batchstat.profiling.profile",
    "Settings": "batchstat.planning.settings",
    "balance": "batchstat.trainers.balance",
    "calibrate": "batchstat.calibration.calibrate",
    "check": "batchstat.gate.check",
    "compare": "batchstat.trainers.compare",
    "estimate_memory": "batchstat.calibration.memory_estimate",
    "find_buckets": "batchstat.trainers.buckets",
    "Preflight": "batchstat.trainers.preflight.preflight",
    "load_calibration": "batchstat.calibration.calibration",
    "load_model": "batchstat.calibration.cost_model",
    "measure": "batchstat.trainers.measure",
    "merge": "batchstat.profiling.shards",
    "plot": "batchstat.render.plots.pictures",
    "preflight": "batchstat.trainers.preflight.preflight",
    "profile": "batchstat.profiling.build",
    "read_samples": "batchstat.training.reading",
    "record": "batchstat.trainers.preflight.recorded",
    "run": "batchstat.trainers.preflight.recorded",
    "save_baseline": "batchstat.gate.saving",
    "show": "batchstat.render.printed",
    "to_html": "batchstat.render.html.report",
    "token_lengths": "batchstat.tokenization.token_lengths",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'batchstat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
