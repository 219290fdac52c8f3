"""`per-batch`: a fixed number of classes in every batch, and of samples of each."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.parameters import described, parameter
from batchstat.planning.classes import Classes
from batchstat.planning.rng import sampler_rng
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.draws import check_total, draw_distinct


@described(
    """Every batch of `static` has `classes` random classes with `samples` random samples of each;
    there are as many batches as the corpus has samples for, unless `batches` is set. No sample
    comes twice in a batch if its class has enough; draws of different batches are independent
    (Catalyst's BatchBalanceClassSampler).
    """
)
@dataclass(frozen=True, kw_only=True)
class PerBatch(Sampler):
    has_sequence: ClassVar[bool] = True
    draws_by_chance: ClassVar[bool] = True

    classes: int = parameter("How many random classes a batch has.")
    samples: int = parameter("How many random samples of each of its classes a batch has.")
    batches: int | None = parameter(
        "Batches per epoch; as many as the corpus has samples for unless set.", None
    )

    @property
    def batch_size(self) -> int:
        """`classes` × `samples`."""
        return self.classes * self.samples

    @property
    def drawn_together(self) -> int:
        """`samples`."""
        return self.samples

    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """Draw distinct classes for each batch, and samples of each, distinct if it has so many.
        Returns (batches × batch size,) samples. Raises InputError: more classes than there are.
        """
        n_classes = len(classes.names)
        if self.classes > n_classes:
            raise InputError(
                f"per-batch: classes={self.classes} in every batch, but the corpus has only "
                f"{n_classes:,}",
                f"set at most {n_classes:,}",
            )
        rng = sampler_rng(seed, epoch)
        # Checked before arrays are made. Without `batches`, only one may be above the corpus.
        check_total((self.batches or 1) * self.batch_size)
        batches = self.batches or max(1, len(classes.all_members) // self.batch_size)
        # The samples of one class in a batch are a group: (n_groups,) its class, and (n_groups,
        # samples) the positions of its samples among the members of that class.
        group_class = draw_distinct(np.full(batches, n_classes), self.classes, rng).ravel()
        positions = draw_distinct(classes.sizes[group_class], self.samples, rng)
        # The members of all classes end to end, and (n_groups, 1) where those of its class begin.
        members = np.concatenate(classes.members)
        group_begins = (np.cumsum(classes.sizes) - classes.sizes)[group_class, None]
        drawn = members[group_begins + positions].reshape(batches, self.batch_size)
        # Within a batch, samples come in random sequence.
        return rng.permuted(drawn, axis=1).ravel()
