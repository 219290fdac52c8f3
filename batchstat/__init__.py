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
    from batchstat.planning.plan import BatchPlan
    from batchstat.planning.settings import Settings
    from batchstat.profiling.build import profile
    from batchstat.profiling.profile import Profile
    from batchstat.profiling.shards import merge
    from batchstat.render.html.report import to_html
    from batchstat.render.plots.pictures import plot
    from batchstat.render.printed import show
    from batchstat.simulation.balance.balance import balance
    from batchstat.simulation.buckets.search import find_buckets
    from batchstat.simulation.compare.compare import compare
    from batchstat.simulation.compare.comparison import Comparison
    from batchstat.simulation.measured import measure
    from batchstat.simulation.preflight import Preflight, preflight
    from batchstat.simulation.recorded import record, run
    from batchstat.tokenization.token_lengths import token_lengths
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
    "balance": "batchstat.simulation.balance.balance",
    "calibrate": "batchstat.calibration.calibrate",
    "check": "batchstat.gate.check",
    "compare": "batchstat.simulation.compare.compare",
    "estimate_memory": "batchstat.calibration.memory_estimate",
    "find_buckets": "batchstat.simulation.buckets.search",
    "Preflight": "batchstat.simulation.preflight",
    "load_calibration": "batchstat.calibration.calibration",
    "load_model": "batchstat.calibration.cost_model",
    "measure": "batchstat.simulation.measured",
    "merge": "batchstat.profiling.shards",
    "plot": "batchstat.render.plots.pictures",
    "preflight": "batchstat.simulation.preflight",
    "profile": "batchstat.profiling.build",
    "read_samples": "batchstat.training.reading",
    "record": "batchstat.simulation.recorded",
    "run": "batchstat.simulation.recorded",
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
