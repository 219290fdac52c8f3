"""`slime`: steps packed by first fit, whose batches are then distributed over the ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from batchstat.errors import OptionError
from batchstat.lengths.arrays import round_up
from batchstat.parameters import MAX_INT, parameter
from batchstat.planning.strategies.balanced_groups import balanced_groups
from batchstat.planning.strategies.packing import first_fit
from batchstat.planning.strategies.rank_steps import RankBatch, RankSteps


@dataclass(frozen=True, kw_only=True)
class Slime(RankSteps):
    """slime with use_dynamic_batch_size: the samples of a step (`samples_per_step`,
    global_batch_size) go, in sequence, into the first batch with room within `tokens_per_batch`
    (max_tokens_per_gpu x context_parallel_size). Until the ranks divide the number of batches, the
    largest of several samples is split into two of similar length.

    With balance_data, ranks get batches of similar work: that of a sample is estimated as
    `token_work` x length + `pair_work` x length², by the shape of the model.

    slime pads rows to 128 tokens x tensor and context parallel size, which is `pad_to_multiple_of`,
    and with context parallelism each sample to twice its size, `document_multiple`. Losses are
    those of calculate_per_token_loss; without it, slime averages the mean losses of samples. Not
    reproduced: balance_by_flops, virtual pipeline stages, and rollouts of several samples each.

    Ranks: batches in turn or of similar work, equally many on each. Last batch: an incomplete step
    is dropped. Longer samples: a batch of one, over the budget. Budget: kept before rows are
    padded. Checked against slime 624b824.
    """

    token_work: int | None = parameter("Work of a token: balance_data.", None)
    pair_work: int | None = parameter("Work of a token's attention to another.", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.token_work is None) != (self.pair_work is None):
            raise OptionError(
                f"token_work={self.token_work} with pair_work={self.pair_work}: give both, or none"
            )

    def units(self, lengths: Sequence[int]) -> Iterator[Sequence[RankBatch]]:
        """Yield the batches of each rank in turn."""
        rows = first_fit(np.array(lengths), self.tokens_per_batch, MAX_INT).row
        order = np.argsort(rows, kind="stable")
        edges = np.flatnonzero(np.diff(rows[order])) + 1
        batches = [part.tolist() for part in np.split(order, edges)]
        needed = round_up(len(batches), self.world_size)
        while len(batches) < needed:
            _split_largest(batches, lengths)
        yield from self._distributed(batches, lengths)

    def _distributed(
        self, batches: Sequence[RankBatch], lengths: Sequence[int]
    ) -> Iterator[Sequence[RankBatch]]:
        ranks = self.world_size
        if self.token_work is None or self.pair_work is None:
            yield from (batches[rank::ranks] for rank in range(ranks))
            return
        own = [n * (self.token_work + self.pair_work * n) for n in lengths]
        work = [sum(own[i] for i in batch) for batch in batches]
        for group in balanced_groups(work, ranks, equal_size=True):
            yield [batches[k] for k in group]


def _split_largest(batches: list[RankBatch], lengths: Sequence[int]) -> None:
    """Split the batch of most tokens, the last of several, in two: longest first, each sample into
    the half that has fewer tokens. The second half becomes the last batch.
    """
    several = [
        (sum(lengths[i] for i in batch), k) for k, batch in enumerate(batches) if len(batch) > 1
    ]
    largest = max(several)[1]
    halves: tuple[RankBatch, RankBatch] = ([], [])
    tokens = [0, 0]
    for i in sorted(batches[largest], key=lambda i: -lengths[i]):
        half = int(tokens[0] > tokens[1])
        halves[half].append(i)
        tokens[half] += lengths[i]
    batches[largest] = halves[0]
    batches.append(halves[1])
