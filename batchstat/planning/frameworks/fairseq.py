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
        """Sort, cut and shuffle; drop the last batch if not a multiple, or by `drop_last`."""
        order = np.argsort(window.lengths, kind="stable")
        padded = round_up(window.lengths[order], self.pad_to_multiple_of)
        offsets = np.array(self._batch_offsets(padded))
        if window.last and len(offsets) > 1:
            last_size = int(offsets[-1] - offsets[-2])
            multiple = self.required_batch_size_multiple
            # The last sample is the longest; an empty one counts as one token.
            budgeted = self.tokens_per_batch // max(int(padded[-1]), 1)
            most = min(budgeted, self.max_samples or MAX_INT)
            # `drop_last` drops it if as many more samples would fit into it.
            if last_size % multiple or (self.drop_last and last_size + multiple <= most):
                offsets = offsets[:-1]
        return self.batch_rows(window, order, offsets)

    def _batch_offsets(self, padded: Ints) -> list[int]:
        """Return the offsets of batches of rising lengths, as fairseq's batch_by_size cuts them."""
        # The open batch grows sample by sample. Its settled part has an allowed size (below the
        # multiple, or a multiple); later samples wait until the size is allowed again. Where one
        # would exceed the budget, the settled part is a batch; the waiting ones begin the next.
        max_samples, multiple = self.max_samples or MAX_INT, self.required_batch_size_multiple
        offsets = [0]
        settled_end = 0
        for i, width in enumerate(padded.tolist()):
            size = i + 1 - offsets[-1]  # of the open batch with this sample
            if size * width > self.tokens_per_batch or size > max_samples:
                offsets.append(settled_end)
                # With the waiting samples it would be over the budget, too: these are a batch.
                if (i + 1 - settled_end) * width > self.tokens_per_batch:
                    offsets.append(i)
                settled_end = i + 1
            elif size < multiple or size % multiple == 0:
                settled_end = i + 1
        # At the end both parts are batches; where no sample waits, equal offsets count once.
        return list(dict.fromkeys([*offsets, settled_end, len(padded)]))
