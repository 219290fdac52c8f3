"""The trainers whose own configurations are read: one folder and one line below for each."""

from batchstat.trainers.base.setup import Framework
from batchstat.trainers.transformers.config import TRAINING_ARGUMENTS
from batchstat.trainers.trl.config import SFT_CONFIG

CONFIGURATIONS: dict[str, Framework] = {"transformers": TRAINING_ARGUMENTS, "trl": SFT_CONFIG}
