"""Rank idle: the cost of each step on its slowest rank against the mean rank."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from batchstat.calibration.costs import TOTAL_TOKENS, BatchCost
from batchstat.documents.ranks import WorstStep
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import added, total
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.settings import ResolvedSettings


@dataclass(frozen=True)
class RankCounts:
    """The cost of steps for their ranks: total tokens, or the squared width for attention.

    Attributes:
        world_size: number of ranks.
        min_steps: fewest steps of any rank.
        max_steps: most steps of any rank.
        tokens: total tokens of all ranks.
        slowest_tokens: sum over steps of the slowest rank's total tokens.
        squares: cost of attention of all ranks.
        slowest_squares: sum over steps of the slowest rank's cost of attention.
        compute: sum over steps of the slowest rank's compute, in the unit of its `BatchCost`.
        compute_of_ranks: sum over steps of the compute of all ranks.
        worst: the step in which ranks wait the most, in tokens.
    """

    world_size: int
    min_steps: int
    max_steps: int
    tokens: int
    slowest_tokens: int
    squares: int
    slowest_squares: int
    compute: int
    compute_of_ranks: int
    worst: WorstStep

    @property
    def step_gap(self) -> int:
        """Difference between the most and the fewest steps of any rank."""
        return self.max_steps - self.min_steps

    @property
    def idle(self) -> float:
        """1 − mean rank's total tokens / slowest rank's total tokens, both summed over steps."""
        return 1 - self.tokens / (self.world_size * self.slowest_tokens)

    @property
    def idle_quadratic(self) -> float:
        """The same with the cost of attention."""
        return 1 - self.squares / (self.world_size * self.slowest_squares)

    @property
    def idle_compute(self) -> float:
        """The same with compute."""
        return 1 - self.compute_of_ranks / (self.world_size * self.compute)


class RankMeter:
    """Accumulates the `RankCounts` of units that come in groups of whole steps, except the last."""

    def __init__(self, settings: ResolvedSettings, cost: BatchCost = TOTAL_TOKENS) -> None:
        """Start without units; `cost` is what compute is counted in."""
        self._settings = settings
        self._cost = cost
        self._sums: Counter[str] = Counter()
        self._held = np.zeros(settings.world_size, dtype=np.int64)
        self._steps = 0
        self._waited = -1.0
        self._worst: WorstStep | None = None

    def add(self, turns: Ints, batches: BatchTable, attention: Ints) -> Ints:
        """Add the next units.

        Args:
            turns: (n_turns, world_size) the unit of each rank; −1 where it has none.
            batches: the batches of the units.
            attention: (n_batches,) cost of attention.

        Returns:
            (n_steps, world_size) total tokens of each rank in each step.
        """
        accumulation = self._settings.gradient_accumulation_steps
        linear = steps_of(turns, batches.sum_by_unit(batches.total_tokens), accumulation)
        quadratic = steps_of(turns, batches.sum_by_unit(attention), accumulation)
        slowest = linear.max(axis=1)
        held = np.zeros_like(linear)
        if self._cost.per_batch:
            held = steps_of(turns, np.diff(batches.unit_offsets), accumulation)
        self._sums.update(
            tokens=total(linear),
            slowest_tokens=total(slowest),
            squares=total(quadratic),
            slowest_squares=total(quadratic.max(axis=1)),
            compute=self._slowest_compute(held, linear, quadratic),
            compute_of_ranks=linear.size * self._cost.per_step
            + self._computed(total(held), total(linear), total(quadratic)),
        )
        # Of a recording, some ranks may have a unit in fewer steps than others.
        units = steps_of(turns, np.ones(batches.n_units, dtype=np.int64), accumulation)
        self._held += np.count_nonzero(units, axis=0)
        waited = slowest - linear.mean(axis=1, dtype=np.float64)
        worst = int(np.argmax(waited))
        if waited[worst] > self._waited:
            self._waited = float(waited[worst])
            self._worst = self._step(worst, turns, batches, linear)
        self._steps += len(linear)
        return linear

    def _computed(self, batches: int, tokens: int, pairs: int) -> int:
        cost = self._cost
        return cost.per_batch * batches + cost.per_token * tokens + cost.per_pair * pairs

    def _slowest_compute(self, held: Ints, linear: Ints, quadratic: Ints) -> int:
        """Return the exact sum over steps; floats only decide which rank is the slowest."""
        cost = self._cost
        steps = cost.per_step * len(linear)
        # The usual case: the rank with the most tokens is the slowest, without floats.
        if not cost.per_batch and not cost.per_pair:
            return steps + cost.per_token * total(linear.max(axis=1))
        compute = (
            cost.per_batch * held.astype(np.float64)
            + cost.per_token * linear.astype(np.float64)
            + cost.per_pair * quadratic.astype(np.float64)
        )
        slowest = (np.arange(len(linear)), compute.argmax(axis=1))
        sums = (total(each[slowest]) for each in (held, linear, quadratic))
        return steps + self._computed(*sums)

    def _step(self, step: int, turns: Ints, batches: BatchTable, linear: Ints) -> WorstStep:
        rank = int(linear[step].argmax())
        accumulation = self._settings.gradient_accumulation_steps
        shared = turns[step * accumulation : (step + 1) * accumulation]
        # What a user can change about the slowest step is its largest batch.
        its = batches.take(shared[:, rank][shared[:, rank] >= 0])
        largest = int(its.total_tokens.argmax())
        return WorstStep(
            step=self._steps + step,
            rank=rank,
            tokens=int(linear[step, rank]),
            mean_tokens=total(linear[step]) / linear.shape[1],
            rows=int(its.rows[largest]),
            width=int(its.widths[largest]),
            ranks_without=int(np.count_nonzero((shared < 0).all(axis=0))),
        )

    def counts(self, shapes: int) -> RankCounts:
        """Return the counts after at least one unit; `shapes` is the number of distinct shapes."""
        assert self._worst is not None
        # With dummy batches, a rank without a unit runs an empty step.
        is_even = self._settings.remainder == "dummy"
        fewest = self._held.max() if is_even else self._held.min()
        compiling, sums = self._cost.per_shape * shapes, Counter(self._sums)
        sums.update(compute=compiling, compute_of_ranks=compiling * len(self._held))
        return RankCounts(
            **sums,
            world_size=len(self._held),
            min_steps=int(fewest),
            max_steps=int(self._held.max()),
            worst=self._worst,
        )


def steps_of(turns: Ints, numbers: Ints, gradient_accumulation_steps: int) -> Ints:
    """Return (n_steps, world_size) sums over the turns of a step of a number that each unit has."""
    found: Ints = numbers.take(turns)
    # −1 takes the last number; the copy is saved where every rank has a unit, as nearly always.
    if turns.min(initial=0) < 0:
        found = np.where(turns < 0, 0, found)
    if gradient_accumulation_steps == 1:
        return found
    firsts = np.arange(0, len(found), gradient_accumulation_steps)
    most = min(gradient_accumulation_steps, len(found))
    return added(found, lambda part: np.add.reduceat(part, firsts, axis=0), most)
