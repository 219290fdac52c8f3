"""`weighted-random`: torch's WeightedRandomSampler."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.parameters import described, parameter
from batchstat.planning.classes import Classes
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.draws import check_total
from batchstat.planning.samplers.torch_random import torch_multinomial


@described(
    """Draws `length` samples, by default as many as the corpus has, with every class equally likely
    at each draw: the same indices as torch's WeightedRandomSampler with weights of 1 / class size
    and a generator seeded with seed + epoch. With `replacement` off, no sample comes twice, and
    only large classes are left in the end. (torch itself supports at most 16,777,216 samples.)
    """
)
@dataclass(frozen=True, kw_only=True)
class WeightedRandom(Sampler):
    has_sequence: ClassVar[bool] = True
    draws_by_chance: ClassVar[bool] = True

    length: int | None = parameter("Samples per epoch; as many as the corpus has unless set.", None)
    replacement: bool = parameter("Whether an epoch may draw a sample again.", True)

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """Draw as torch does. Raises InputError: more than there are, without replacement."""
        n_labelled = len(classes.all_members)
        length = self.length or n_labelled
        check_total(length)
        if not self.replacement and length > n_labelled:
            raise InputError(
                f"weighted-random: length={length:,} without replacement, but the corpus has only "
                f"{n_labelled:,} samples with a class",
                "lower length, or set replacement=true",
            )
        # The last weight, 0, is that of samples without a label, whose code is −1.
        class_weights = np.append(1 / classes.sizes, 0.0)
        weights = class_weights[classes.codes]
        return torch_multinomial(weights, length, seed + epoch, replacement=self.replacement)
