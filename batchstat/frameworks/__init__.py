"""A trainer's own configuration: what it means in batchstat's settings, one framework per file.

A new framework is one file and one line below.
"""

from batchstat.frameworks.axolotl import AXOLOTL
from batchstat.frameworks.llama_factory import LLAMA_FACTORY
from batchstat.frameworks.ms_swift import MS_SWIFT
from batchstat.frameworks.setup import Framework
from batchstat.frameworks.sft_config import SFT_CONFIG
from batchstat.frameworks.slime import SLIME
from batchstat.frameworks.torchtune import TORCHTUNE
from batchstat.frameworks.training_arguments import TRAINING_ARGUMENTS
from batchstat.frameworks.verl import VERL
from batchstat.frameworks.verl_ppo import VERL_PPO

CONFIGURATIONS: dict[str, Framework] = {
    "transformers": TRAINING_ARGUMENTS,
    "trl": SFT_CONFIG,
    "axolotl": AXOLOTL,
    "llama-factory": LLAMA_FACTORY,
    "torchtune": TORCHTUNE,
    "ms-swift": MS_SWIFT,
    "verl": VERL,
    "verl-ppo": VERL_PPO,
    "slime": SLIME,
}
