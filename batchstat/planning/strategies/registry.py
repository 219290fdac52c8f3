"""The strategies by name. A new one is a file and a line below; property tests run on it. Not in
the folder's `__init__.py`: that runs before the modules beside it, which frameworks import.
"""

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from batchstat.planning.strategies.base import Strategy


class _Strategies(UserDict[str, Any]):
    """Classes of strategies by name, imported when first asked for, as that takes long."""

    def __getitem__(self, name: str) -> "type[Strategy]":
        """Return the class of the strategy with this name."""
        kind = self.data[name]
        if isinstance(kind, str):
            module, _, class_name = kind.partition(":")
            kind = getattr(import_module(f"batchstat.planning.{module}"), class_name)
            self.data[name] = kind
        return cast("type[Strategy]", kind)


OWN_STRATEGIES = _Strategies(
    {
        "fixed": "strategies.static:Fixed",
        "static": "strategies.static:Static",
        "bucketed": "strategies.bucketed:Bucketed",
        "token-budget": "strategies.token_budget:TokenBudget",
        "boundaries": "strategies.boundaries:Boundaries",
        "packed": "strategies.packed:Packed",
        "padding-free": "strategies.padding_free:PaddingFree",
        "regrouped": "strategies.regrouped:Regrouped",
    }
)
FRAMEWORKS = _Strategies(
    {
        "hf-trainer": "frameworks.defaults:HfTrainer",
        "hf-group-by-length": "frameworks.hf_group_by_length:HfGroupByLength",
        "fairseq": "frameworks.fairseq:Fairseq",
        "lhotse": "frameworks.lhotse:Lhotse",
        "trl": "frameworks.trl:Trl",
        "axolotl": "frameworks.axolotl:Axolotl",
        "llama-factory": "frameworks.llama_factory:LlamaFactory",
        "llm-foundry": "frameworks.llm_foundry:LlmFoundry",
        "nemo": "frameworks.nemo:Nemo",
        "grain": "frameworks.grain:Grain",
        "tf-data": "frameworks.defaults:TfData",
        "infinibatch": "frameworks.defaults:Infinibatch",
        "asym": "frameworks.asym:Asym",
    }
)
STRATEGIES = OWN_STRATEGIES | FRAMEWORKS


def names_strategy(text: str) -> bool:
    """Return whether a text is a strategy's name, with parameters or without."""
    return text.partition(":")[0] in STRATEGIES
