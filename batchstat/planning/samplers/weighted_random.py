"""`weighted-random`: torch's WeightedRandomSampler."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.planning.classes import Classes
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.draws import check_total
from batchstat.planning.samplers.torch_random import torch_multinomial


@dataclass(frozen=True, kw_only=True)
class WeightedRandom(Sampler):
    """`length` draws, as many as there are samples unless it is set, each from all of them, every
    class as likely as any other: torch's WeightedRandomSampler with weights of 1 / size of the
    class and a generator seeded with seed + epoch, to the index. With `replacement` off no sample
    comes twice, and large classes are what is left in the end. (torch itself takes 16,777,216
    samples at most.)
    """

    has_sequence: ClassVar[bool] = True

    length: int | None = None
    replacement: bool = True

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """In the sequence in which torch draws them.

        Raises:
            InputError: more samples than there are, without replacement.
        """
        there = len(classes.all_members)
        length = self.length or there
        check_total(length)
        if not self.replacement and length > there:
            raise InputError(
                f"weighted-random: length={length:,} without replacement, and the corpus has "
                f"{there:,} samples with a class: ask for fewer, or set replacement=true"
            )
        inverse = np.append(1 / classes.sizes, 0.0)
        weights = inverse[classes.codes]
        return torch_multinomial(weights, length, seed + epoch, replacement=self.replacement)
