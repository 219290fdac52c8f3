"""Rank idle: what is computed between two meetings of ranks, on the slowest and the mean rank. A
unit is the batches that reach one rank together. In a turn, each rank gets a unit; a step has
`gradient_accumulation_steps` turns. Ranks meet once in each step, or in each turn (`wait`).
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from batchstat.calibration.cost_model import TOTAL_TOKENS, BatchCost
from batchstat.documents.strategy import WorstStep
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import add_exactly, total
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.settings import ResolvedSettings, Settings


@dataclass(frozen=True)
class RankCounts:
    """What an epoch costs the ranks. Wherever they meet, the others wait for the slowest."""

    world_size: int  # number of ranks
    min_steps: int  # fewest steps of any rank
    max_steps: int  # most steps of any rank
    unfinished_steps: int  # what would have been steps, on which no optimizer stepped
    tokens: int  # total tokens of all ranks
    slowest_tokens: int  # sum over meetings of the slowest rank's total tokens
    squares: int  # cost of attention of all ranks
    slowest_squares: int  # sum over meetings of the slowest rank's cost of attention
    compute: int  # sum over meetings of the slowest rank's compute, in the unit of the `BatchCost`
    compute_of_ranks: int  # sum over meetings of the compute of all ranks
    worst: WorstStep  # the step in which ranks wait the most, in tokens, by its longest wait

    @property
    def step_gap(self) -> int:
        """Difference between the most and the fewest steps of any rank."""
        return self.max_steps - self.min_steps

    @property
    def idle(self) -> float:
        """1 − mean rank's total tokens / slowest rank's total tokens, both summed over meetings."""
        return 1 - self.tokens / (self.world_size * self.slowest_tokens)

    @property
    def idle_compute(self) -> float:
        """The same with compute."""
        return 1 - self.compute_of_ranks / (self.world_size * self.compute)


class RankMeter:
    """Accumulates `RankCounts`, round by round; rounds are whole steps, but for the last."""

    def __init__(self, settings: ResolvedSettings, cost: BatchCost = TOTAL_TOKENS) -> None:
        """Start without units; `cost` is the unit of compute."""
        self._settings = settings
        self._cost = cost
        # Sums of `RankCounts`, by the names of its fields.
        self._sums: Counter[str] = Counter()
        self._steps_of_ranks = np.zeros(settings.world_size, dtype=np.int64)
        self._meetings_per_step = meetings_per_step(settings)
        self._steps = 0
        # The most tokens that the mean rank waits in a step, and that step.
        self._most_waited = -1.0
        self._worst: WorstStep | None = None

    def add(self, turns: Ints, batches: BatchTable, attended_pairs: Ints) -> Ints:
        """Add the units of the next `batches`: (n_turns, world_size) the unit of each rank, −1 for
        none; and (n_batches,) pairs of tokens that attention computes. Returns (n_meetings,
        world_size) total tokens of each rank before each meeting.
        """
        accumulation = self._settings.gradient_accumulation_steps
        together = accumulation // self._meetings_per_step
        # For each meeting and rank (n_meetings, world_size): total tokens, and pairs of tokens.
        tokens = sum_by_step(turns, batches.sum_by_unit(batches.total_tokens), together)
        pairs = sum_by_step(turns, batches.sum_by_unit(attended_pairs), together)
        slowest_tokens = tokens.max(axis=1)
        batch_counts = np.zeros_like(tokens)
        # How many batches a rank runs only matters where a batch costs something whatever it holds.
        if self._cost.per_batch:
            batch_counts = sum_by_step(turns, np.diff(batches.unit_offsets), together)
        # What a step costs whatever it holds, it costs once, however often ranks meet in it.
        of_steps = self._cost.per_step * -(-len(turns) // accumulation)
        self._sums.update(
            tokens=total(tokens),
            slowest_tokens=total(slowest_tokens),
            squares=total(pairs),
            slowest_squares=total(pairs.max(axis=1)),
            compute=of_steps + self._slowest_compute(batch_counts, tokens, pairs),
            compute_of_ranks=of_steps * self._settings.world_size
            + self._compute(total(batch_counts), total(tokens), total(pairs)),
        )
        # A rank runs the steps in which it has a unit. In a recording, that may be any of them.
        units = sum_by_step(turns, np.ones(batches.n_units, dtype=np.int64), accumulation)
        self._steps_of_ranks += np.count_nonzero(units, axis=0)
        # (n_meetings,) tokens of the slowest rank beyond those of the mean rank.
        waited = slowest_tokens - tokens.mean(axis=1, dtype=np.float64)
        per_step = self._meetings_per_step
        waited_in_steps = np.add.reduceat(waited, np.arange(0, len(waited), per_step))
        worst = int(np.argmax(waited_in_steps))
        if waited_in_steps[worst] > self._most_waited:
            self._most_waited = float(waited_in_steps[worst])
            longest = np.argmax(waited[worst * per_step : (worst + 1) * per_step])
            meeting = worst * per_step + int(longest)
            self._worst = self._describe(meeting, turns, batches, tokens)
        self._steps += len(waited_in_steps)
        return tokens

    def _compute(self, batches: int, tokens: int, pairs: int) -> int:
        cost = self._cost
        return cost.per_batch * batches + cost.per_token * tokens + cost.per_pair * pairs

    def _slowest_compute(self, batches: Ints, tokens: Ints, pairs: Ints) -> int:
        """Return the slowest rank's compute over all meetings, exactly: floats only find it."""
        cost = self._cost
        # The usual case: the rank with the most tokens is the slowest, without floats.
        if not cost.per_batch and not cost.per_pair:
            return cost.per_token * total(tokens.max(axis=1))
        compute_of_ranks = (
            cost.per_batch * batches.astype(np.float64)
            + cost.per_token * tokens.astype(np.float64)
            + cost.per_pair * pairs.astype(np.float64)
        )
        # An index of one element of each meeting: that of its slowest rank.
        of_slowest = (np.arange(len(tokens)), compute_of_ranks.argmax(axis=1))
        sums = (total(numbers[of_slowest]) for numbers in (batches, tokens, pairs))
        return self._compute(*sums)

    def _describe(self, meeting: int, turns: Ints, batches: BatchTable, tokens: Ints) -> WorstStep:
        """Describe a meeting: its slowest rank, and the largest batch of that, for users to cut."""
        rank = int(tokens[meeting].argmax())
        together = self._settings.gradient_accumulation_steps // self._meetings_per_step
        turns_before = turns[meeting * together : (meeting + 1) * together]
        units_of_rank = turns_before[:, rank]
        # The batches of the slowest rank before this meeting.
        of_rank = batches.take(units_of_rank[units_of_rank >= 0])
        largest = int(of_rank.total_tokens.argmax())
        return WorstStep(
            step=self._steps + meeting // self._meetings_per_step,
            rank=rank,
            tokens=int(tokens[meeting, rank]),
            mean_tokens=total(tokens[meeting]) / tokens.shape[1],
            rows=int(of_rank.rows[largest]),
            width=int(of_rank.widths[largest]),
            ranks_without=int(np.count_nonzero((turns_before < 0).all(axis=0))),
        )

    def counts(self, shapes: int, finished_steps: int | None = None) -> RankCounts:
        """Return the counts after at least one unit; `shapes` is the number of distinct shapes, and
        `finished_steps` how many steps count, from the first; None for all.
        """
        assert self._worst is not None
        steps_of_ranks = self._steps_of_ranks
        if finished_steps is not None:
            steps_of_ranks = np.minimum(steps_of_ranks, finished_steps)
        # With dummy batches, a rank without a unit runs an empty step: all ranks run as many.
        is_even = self._settings.remainder == "dummy"
        fewest_steps = steps_of_ranks.max() if is_even else steps_of_ranks.min()
        # Every shape is new to every rank. `Counter.update` adds; a copy leaves the meter as it is.
        of_shapes, sums = self._cost.per_shape * shapes, Counter(self._sums)
        sums.update(compute=of_shapes, compute_of_ranks=of_shapes * self._settings.world_size)
        return RankCounts(
            **sums,
            world_size=self._settings.world_size,
            min_steps=int(fewest_steps),
            max_steps=int(steps_of_ranks.max()),
            unfinished_steps=int(self._steps_of_ranks.max() - steps_of_ranks.max()),
            worst=self._worst,
        )


def meetings_per_step(settings: Settings) -> int:
    """Return how often ranks wait for each other in a step."""
    return settings.gradient_accumulation_steps if settings.wait == "micro-batch" else 1


def sum_by_step(turns: Ints, numbers: Ints, gradient_accumulation_steps: int) -> Ints:
    """Return (n_steps, world_size) the sum of (n_units,) numbers over the units that each rank gets
    in each step, of (n_turns, world_size) units, −1 for none; the last step may have fewer turns.
    """
    numbers_of_turns: Ints = numbers.take(turns)  # (n_turns, world_size)
    # `take` reads −1 as the last unit: these become 0, mostly without a copy. `initial`: no turns.
    if turns.min(initial=0) < 0:
        numbers_of_turns = np.where(turns < 0, 0, numbers_of_turns)
    return sum_in_groups(numbers_of_turns, gradient_accumulation_steps)


def sum_in_groups(numbers: Ints, size: int) -> Ints:
    """Add up each `size` consecutive rows of an array; of the last ones, as many as there are."""
    if size == 1:
        return numbers
    # reduceat adds the rows from the first one of each group up to the next.
    first_rows, most_rows = np.arange(0, len(numbers), size), min(size, len(numbers))
    # `add_exactly` keeps sums exact that do not fit 64 bits; no sum has more than `most_rows`.
    return add_exactly(numbers, lambda part: np.add.reduceat(part, first_rows, axis=0), most_rows)
