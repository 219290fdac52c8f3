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
        """Sort shortest first, cut by the budget, shuffle. The last batch of the epoch is dropped
        if its size is not a multiple, as in fairseq, or by `drop_last`.
        """
        order = np.argsort(window.lengths, kind="stable")
        padded = round_up(window.lengths[order], self.pad_to_multiple_of)
        offsets = np.array(self._cuts(padded))
        multiple = self.required_batch_size_multiple
        # Samples of the last batch, if there is one, beyond a multiple of the required size.
        n_above_multiple = len(offsets) > 1 and (offsets[-1] - offsets[-2]) % multiple
        if window.last and (n_above_multiple or self._has_room(offsets, padded)):
            offsets = offsets[:-1]
        return self.batch_rows(window, order, offsets)

    def _has_room(self, offsets: Ints, padded: Ints) -> bool:
        """Return whether `drop_last` drops the last batch, because another
        `required_batch_size_multiple` samples would fit into it.
        """
        if not self.drop_last or len(offsets) < 2:  # or no batch
            return False
        size = int(offsets[-1] - offsets[-2])
        # The last sample is the longest; an empty one counts as one token.
        room = min(self.tokens_per_batch // max(int(padded[-1]), 1), self.max_samples or MAX_INT)
        return size + self.required_batch_size_multiple <= room

    def _cuts(self, padded: Ints) -> list[int]:
        """Return the offsets of batches of ascending lengths, as fairseq's batch_by_size cuts them.

        The open batch grows sample by sample. Its settled part has an allowed size (below the
        multiple, or a multiple); the samples after that wait until the size is allowed again. Once
        a sample would exceed the budget, the settled part is a batch, and the waiting samples begin
        the next one.

        Args:
            padded: (n,) widths of the samples, ascending: the last of a batch is its longest.
        """
        max_samples, multiple = self.max_samples or MAX_INT, self.required_batch_size_multiple
        offsets = [0]
        settled = 0
        for i, longest in enumerate(padded.tolist()):
            size = i + 1 - offsets[-1]
            if size * longest > self.tokens_per_batch or size > max_samples:
                offsets.append(settled)
                # The waiting samples and this one exceed the budget, too: they are a batch without
                # it.
                if (i + 1 - settled) * longest > self.tokens_per_batch:
                    offsets.append(i)
                settled = i + 1
            elif size < multiple or size % multiple == 0:
                settled = i + 1
        # The settled part and what waits at the end are batches; equal offsets are one.
        return list(dict.fromkeys([*offsets, settled, len(padded)]))
