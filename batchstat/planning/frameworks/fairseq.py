"""`fairseq`: how fairseq batches by size."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from batchstat.lengths.arrays import Ints, round_up
from batchstat.parameters import MAX_INT, described, parameter
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.strategies.base import Strategy


@described(
    """The epoch is sorted shortest first; a batch grows while rows × longest stays in the budget.

    The size of a batch is below `required_batch_size_multiple` or a multiple of it; samples beyond
    the last multiple begin the next batch. As in fairseq, the epoch's last batch is dropped if its
    size is not a multiple; its samples are counted as dropped. A sample above the budget, on which
    fairseq stops, is a batch of its own. Source: fairseq's batch_by_size with --max-tokens.

    Ranks: batches in turn; ranks without a batch left run an empty step. Last batch: dropped if its
    size is not a multiple (--required-batch-size-multiple). Longer samples: an error, or dropped
    with --skip-invalid-size-inputs-valid-test. Budget: rows × longest is at most --max-tokens.
    """
)
@dataclass(frozen=True, kw_only=True)
class Fairseq(Strategy):
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "dummy"

    tokens_per_batch: int
    required_batch_size_multiple: int = parameter(
        "A batch has fewer samples than this, or a multiple of it.", 8
    )
    max_samples: int | None = None
    shuffle_batches: bool = True

    def plan(self, window: Window) -> BatchPlan:
        """Sort shortest first, cut by the budget, shuffle."""
        order = np.argsort(window.lengths, kind="stable")
        padded = round_up(window.lengths[order], self.pad_to_multiple_of)
        offsets = np.array(self._cuts(padded))
        multiple = self.required_batch_size_multiple
        short = len(offsets) > 1 and (offsets[-1] - offsets[-2]) % multiple
        if window.last and (short or self._has_room(offsets, padded)):
            offsets = offsets[:-1]
        return self.batch_rows(window, order, offsets)

    def _has_room(self, offsets: Ints, padded: Ints) -> bool:
        """Return whether `drop_last` drops the last batch."""
        if not self.drop_last or len(offsets) < 2:
            return False
        size = int(offsets[-1] - offsets[-2])
        most = min(self.tokens_per_batch // max(int(padded[-1]), 1), self.max_samples or MAX_INT)
        return size + self.required_batch_size_multiple <= most

    def _cuts(self, padded: Ints) -> list[int]:
        """Return offsets of the batches of ascending lengths.

        The settled part of the open batch has an allowed size; samples since then wait until the
        size is allowed again.
        """
        most, multiple = self.max_samples or MAX_INT, self.required_batch_size_multiple
        offsets = [0]
        settled = 0
        for at, longest in enumerate(padded.tolist()):
            size = at + 1 - offsets[-1]
            if size * longest > self.tokens_per_batch or size > most:
                offsets.append(settled)
                if (at + 1 - settled) * longest > self.tokens_per_batch:
                    offsets.append(at)
                settled = at + 1
            elif size < multiple or size % multiple == 0:
                settled = at + 1
        return list(dict.fromkeys([*offsets, settled, len(padded)]))
