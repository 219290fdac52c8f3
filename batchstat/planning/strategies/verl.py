"""`verl`: steps whose ranks get similar work, in batches of similar work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from batchstat.errors import InputError, OptionError
from batchstat.parameters import parameter
from batchstat.planning.strategies.balanced_groups import balanced_groups
from batchstat.planning.strategies.rank_steps import RankBatch, RankSteps

ASSIGNMENTS: Mapping[str, str] = {
    "balanced": "Similar work and equally many samples on each rank, the lightest at both ends of "
    "its sequence: trainer.balance_batch without trainer.use_v1.",
    "ordered": "Similar work and equally many samples on each rank, in sequence: trainer.use_v1.",
    "chunks": "Consecutive samples on each rank: with neither.",
    "turns": "Samples in turn, as torch's DistributedSampler: verl's SFT trainer.",
}
_LINEAR = 24_576
"""Work of a token in units of attention between two: 6 × the hidden size of a model of 7B."""


@dataclass(frozen=True, kw_only=True)
class Verl(RankSteps):
    """verl with use_dynamic_bsz: a step's samples are divided over the ranks, and each rank's into
    as few batches of similar work as its tokens need at `tokens_per_batch` each
    (ppo_max_token_len_per_gpu, max_token_len_per_gpu for SFT; times the ulysses or context
    parallel size). The rank that needs most decides how many batches all ranks have. The work of a
    sample is estimated as 24,576 x length + length². The lightest batches come first and last.

    `samples_per_step` is ppo_mini_batch_size x rollout.n (train_batch_size for SFT), and
    `samples_per_rollout` train_batch_size x rollout.n, which a step is unless it is given. Losses
    are as in its engine workers and its SFT trainer, with loss_agg_mode token-mean.

    Ranks: as `assign` says; equally many samples and batches on each. Last batch: incomplete steps,
    and rollouts, are dropped. Longer samples: truncated or filtered by its data sets; refused where
    one is over the budget. Budget: decides how many batches there are, not what is in each: work is
    balanced, so that a batch can exceed it. With `keeps_budget`, as of verl 0.9.1, a step gets one
    batch more until none does. Checked against verl 0.8.0.dev (b178a3c) and 0.9.1.
    """

    samples_per_rollout: int | None = parameter(
        "Samples that are divided over the ranks together, of several steps.", None
    )
    assign: str = parameter("How samples reach the ranks.", "balanced", values=ASSIGNMENTS)
    keeps_budget: bool = parameter("Whether no batch exceeds the budget: from verl 0.9.1.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_size % self.samples_per_step:
            raise OptionError(
                f"samples_per_rollout={self.samples_per_rollout} is not a multiple of "
                f"samples_per_step={self.samples_per_step}: change one of them"
            )

    @property
    def window_size(self) -> int:
        """Samples of a rollout."""
        return self.samples_per_rollout or self.samples_per_step

    def units(self, lengths: Sequence[int]) -> Iterator[list[RankBatch]]:
        """Yield the batches of each rank in turn, of one step after another.

        Raises:
            InputError: a sample is longer than the budget.
        """
        if max(lengths) > self.tokens_per_batch:
            raise InputError(
                f"verl: a sample of {max(lengths)} tokens is longer than "
                f"tokens_per_batch={self.tokens_per_batch}, which verl refuses: raise "
                "tokens_per_batch, or lower max_length"
            )
        work = [length * (_LINEAR + length) for length in lengths]
        ranks = self._assigned(work)
        of_rank = self.samples_per_step // self.world_size
        for first in range(0, len(ranks[0]), of_rank):
            step = [samples[first : first + of_rank] for samples in ranks]
            tokens = max(sum(lengths[i] for i in samples) for samples in step)
            n_batches = min(of_rank, max(1, -(-tokens // self.tokens_per_batch)))
            made = [_batches(samples, n_batches, work) for samples in step]
            while self.keeps_budget and self._exceeds_budget(made, lengths):
                n_batches += 1
                made = [_batches(samples, n_batches, work) for samples in step]
            yield from made

    def _exceeds_budget(self, ranks: Sequence[Sequence[RankBatch]], lengths: Sequence[int]) -> bool:
        batches = chain.from_iterable(ranks)
        return any(sum(lengths[i] for i in each) > self.tokens_per_batch for each in batches)

    def _assigned(self, work: Sequence[int]) -> list[list[int]]:
        """Return the samples of each rank, in the sequence in which it computes them."""
        n, ranks = len(work), self.world_size
        if self.assign == "turns":
            return [list(range(rank, n, ranks)) for rank in range(ranks)]
        if self.assign == "chunks":
            edges = range(0, n, n // ranks)
            return [list(range(first, first + n // ranks)) for first in edges]
        groups = balanced_groups(work, ranks, equal_size=True)
        if self.assign == "ordered":
            return groups
        rising = [sorted(group, key=lambda i: (work[i], i)) for group in groups]
        return [each[::2] + each[1::2][::-1] for each in rising]


def _batches(samples: Sequence[int], n_batches: int, work: Sequence[int]) -> list[RankBatch]:
    """Return one rank's batches of a step, the lightest of them at both ends."""
    own = [work[i] for i in samples]
    groups = balanced_groups(own, n_batches, equal_size=False)
    groups.sort(key=lambda group: (sum(own[i] for i in group), group[0]), reverse=True)
    return [[samples[i] for i in group] for group in groups[::2][::-1] + groups[1::2]]
