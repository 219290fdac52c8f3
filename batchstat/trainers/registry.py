"""The trainers whose own configurations are read: one folder and one line below for each."""

from batchstat.trainers.axolotl.config import AXOLOTL
from batchstat.trainers.base.setup import Framework
from batchstat.trainers.llama_factory.config import LLAMA_FACTORY
from batchstat.trainers.transformers.config import TRAINING_ARGUMENTS
from batchstat.trainers.trl.config import SFT_CONFIG

CONFIGURATIONS: dict[str, Framework] = {
    "transformers": TRAINING_ARGUMENTS,
    "trl": SFT_CONFIG,
    "axolotl": AXOLOTL,
    "llama-factory": LLAMA_FACTORY,
}
