"""From order and lengths to a `BatchPlan`: one strategy per file, listed here, pure NumPy.

A new strategy is one file and one line below; every shared property test runs on it.
"""

from batchstat.planning.strategies.asym import Asym
from batchstat.planning.strategies.axolotl import Axolotl
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.boundaries import Boundaries
from batchstat.planning.strategies.bucketed import Bucketed
from batchstat.planning.strategies.fairseq import Fairseq
from batchstat.planning.strategies.fixed import Fixed
from batchstat.planning.strategies.frameworks import HfTrainer, Infinibatch, TfData
from batchstat.planning.strategies.grain import Grain
from batchstat.planning.strategies.hf_group_by_length import HfGroupByLength
from batchstat.planning.strategies.lhotse import Lhotse
from batchstat.planning.strategies.llama_factory import LlamaFactory
from batchstat.planning.strategies.llm_foundry import LlmFoundry
from batchstat.planning.strategies.nemo import Nemo
from batchstat.planning.strategies.packed import Packed
from batchstat.planning.strategies.padding_free import PaddingFree
from batchstat.planning.strategies.static import Static
from batchstat.planning.strategies.token_budget import TokenBudget
from batchstat.planning.strategies.trl import Trl

OWN_STRATEGIES: dict[str, type[Strategy]] = {
    "fixed": Fixed,
    "static": Static,
    "bucketed": Bucketed,
    "token-budget": TokenBudget,
    "boundaries": Boundaries,
    "packed": Packed,
    "padding-free": PaddingFree,
}
FRAMEWORKS: dict[str, type[Strategy]] = {
    "hf-trainer": HfTrainer,
    "hf-group-by-length": HfGroupByLength,
    "fairseq": Fairseq,
    "lhotse": Lhotse,
    "trl": Trl,
    "axolotl": Axolotl,
    "llama-factory": LlamaFactory,
    "llm-foundry": LlmFoundry,
    "nemo": Nemo,
    "grain": Grain,
    "tf-data": TfData,
    "infinibatch": Infinibatch,
    "asym": Asym,
}
STRATEGIES: dict[str, type[Strategy]] = {**OWN_STRATEGIES, **FRAMEWORKS}
