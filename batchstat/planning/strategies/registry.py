"""The strategies by name. A new one is one file and one line below; every shared property test runs
on it.

Not in the `__init__.py` of its folder: that runs before any module beside it, and frameworks, which
are listed here, import those modules.
"""

from batchstat.planning.frameworks.asym import Asym
from batchstat.planning.frameworks.axolotl import Axolotl
from batchstat.planning.frameworks.defaults import HfTrainer, Infinibatch, TfData
from batchstat.planning.frameworks.fairseq import Fairseq
from batchstat.planning.frameworks.grain import Grain
from batchstat.planning.frameworks.hf_group_by_length import HfGroupByLength
from batchstat.planning.frameworks.lhotse import Lhotse
from batchstat.planning.frameworks.llama_factory import LlamaFactory
from batchstat.planning.frameworks.llm_foundry import LlmFoundry
from batchstat.planning.frameworks.nemo import Nemo
from batchstat.planning.frameworks.trl import Trl
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.boundaries import Boundaries
from batchstat.planning.strategies.bucketed import Bucketed
from batchstat.planning.strategies.fixed import Fixed
from batchstat.planning.strategies.packed import Packed
from batchstat.planning.strategies.padding_free import PaddingFree
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.static import Static
from batchstat.planning.strategies.token_budget import TokenBudget

OWN_STRATEGIES: dict[str, type[Strategy]] = {
    "fixed": Fixed,
    "static": Static,
    "bucketed": Bucketed,
    "token-budget": TokenBudget,
    "boundaries": Boundaries,
    "packed": Packed,
    "padding-free": PaddingFree,
    "regrouped": Regrouped,
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
