"""A trainer's own configuration: what it means in batchstat's settings, one framework per file.

A new framework is one file and one line below.
"""

from batchstat.frameworks.axolotl import AXOLOTL
from batchstat.frameworks.llama_factory import LLAMA_FACTORY
from batchstat.frameworks.setup import Framework
from batchstat.frameworks.sft_config import SFT_CONFIG
from batchstat.frameworks.training_arguments import TRAINING_ARGUMENTS

CONFIGURATIONS: dict[str, Framework] = {
    "transformers": TRAINING_ARGUMENTS,
    "trl": SFT_CONFIG,
    "axolotl": AXOLOTL,
    "llama-factory": LLAMA_FACTORY,
}
