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
    # Under its own name, a type checker takes each for public.
    from batchstat.calibration.calibrate import calibrate as calibrate
    from batchstat.calibration.calibration import Calibration as Calibration
    from batchstat.calibration.calibration import load_calibration as load_calibration
    from batchstat.calibration.cost_model import CostModel as CostModel
    from batchstat.calibration.cost_model import load_model as load_model
    from batchstat.calibration.memory_estimate import estimate_memory as estimate_memory
    from batchstat.corpus.options import CorpusOptions as CorpusOptions
    from batchstat.errors import BatchstatError as BatchstatError
    from batchstat.errors import InputError as InputError
    from batchstat.errors import OptionError as OptionError
    from batchstat.findings import Finding as Finding
    from batchstat.gate.check import check as check
    from batchstat.planning.plan import BatchPlan as BatchPlan
    from batchstat.planning.settings import Settings as Settings
    from batchstat.profiling.build import profile as profile
    from batchstat.profiling.profile import Profile as Profile
    from batchstat.render.html.report import to_html as to_html
    from batchstat.render.plots.pictures import plot as plot
    from batchstat.render.printed import preflight as preflight
    from batchstat.render.printed import record as record
    from batchstat.render.printed import show as show
    from batchstat.simulation.compare.comparison import Comparison as Comparison
    from batchstat.tokenization.token_lengths import token_lengths as token_lengths
    from batchstat.trainers.balance import balance as balance
    from batchstat.trainers.buckets import find_buckets as find_buckets
    from batchstat.trainers.compare import compare as compare
    from batchstat.trainers.measure import measure as measure
    from batchstat.trainers.preflight.recorded import run as run
    from batchstat.trainers.preflight.report import Preflight as Preflight
    from batchstat.training.apply import apply as apply
    from batchstat.training.batch_sampler import BatchSampler as BatchSampler
    from batchstat.training.reading import read_samples as read_samples
    from batchstat.training.samplers import ClassBalancedSampler as ClassBalancedSampler
    from batchstat.training.samplers import RankSampler as RankSampler
    from batchstat.training.samplers import WeightedClassSampler as WeightedClassSampler
    from batchstat.training.stream_batcher import StreamBatcher as StreamBatcher

_HOMES = {
    "BatchPlan": "batchstat.planning.plan",
    "BatchSampler": "batchstat.training.batch_sampler",
    "BatchstatError": "batchstat.errors",
    "Calibration": "batchstat.calibration.calibration",
    "ClassBalancedSampler": "batchstat.training.samplers",
    "Comparison": "batchstat.simulation.compare.comparison",
    "CorpusOptions": "batchstat.corpus.options",
    "CostModel": "batchstat.calibration.cost_model",
    "Finding": "batchstat.findings",
    "InputError": "batchstat.errors",
    "OptionError": "batchstat.errors",
    "Preflight": "batchstat.trainers.preflight.report",
    "Profile": "batchstat.profiling.profile",
    "RankSampler": "batchstat.training.samplers",
    "Settings": "batchstat.planning.settings",
    "StreamBatcher": "batchstat.training.stream_batcher",
    "WeightedClassSampler": "batchstat.training.samplers",
    "apply": "batchstat.training.apply",
    "balance": "batchstat.trainers.balance",
    "calibrate": "batchstat.calibration.calibrate",
    "check": "batchstat.gate.check",
    "compare": "batchstat.trainers.compare",
    "estimate_memory": "batchstat.calibration.memory_estimate",
    "find_buckets": "batchstat.trainers.buckets",
    "load_calibration": "batchstat.calibration.calibration",
    "load_model": "batchstat.calibration.cost_model",
    "measure": "batchstat.trainers.measure",
    "plot": "batchstat.render.plots.pictures",
    "preflight": "batchstat.render.printed",
    "profile": "batchstat.profiling.build",
    "read_samples": "batchstat.training.reading",
    "record": "batchstat.render.printed",
    "run": "batchstat.trainers.preflight.recorded",
    "show": "batchstat.render.printed",
    "to_html": "batchstat.render.html.report",
    "token_lengths": "batchstat.tokenization.token_lengths",
}
"""Where each public name is defined."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'batchstat' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
