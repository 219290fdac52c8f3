"""`slime`: steps packed by first fit, whose batches are then distributed over the ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from batchstat.lengths.arrays import round_up
from batchstat.parameters import MAX_INT
from batchstat.planning.strategies.packing import first_fit
from batchstat.planning.strategies.rank_steps import RankBatch, RankSteps


@dataclass(frozen=True, kw_only=True)
class Slime(RankSteps):
    """slime with use_dynamic_batch_size: the samples of a step (`samples_per_step`,
    global_batch_size) go, in sequence, into the first batch with room within `tokens_per_batch`
    (max_tokens_per_gpu x context_parallel_size). Until the ranks divide the number of batches, the
    largest of several samples is split into two of similar length.

    slime pads rows to 128 tokens x tensor parallel size, which is `pad_to_multiple_of`. Losses are
    those of calculate_per_token_loss; without it, slime averages the mean losses of samples. Not
    reproduced: balance_data, balance_by_flops, virtual pipeline stages, and rollouts of several
    samples each.

    Ranks: batches in turn, equally many on each. Last batch: an incomplete step is dropped. Longer
    samples: a batch of one, over the budget. Budget: kept before rows are padded. Checked against
    slime 624b824.
    """

    def units(self, lengths: Sequence[int]) -> Iterator[list[RankBatch]]:
        """Yield the batches of each rank in turn."""
        rows = first_fit(np.array(lengths), self.tokens_per_batch, MAX_INT).row
        order = np.argsort(rows, kind="stable")
        edges = np.flatnonzero(np.diff(rows[order])) + 1
        batches = [part.tolist() for part in np.split(order, edges)]
        needed = round_up(len(batches), self.world_size)
        while len(batches) < needed:
            _split_largest(batches, lengths)
        yield from (batches[rank :: self.world_size] for rank in range(self.world_size))


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
