"""What the ranks wait for: the cost of each step on its slowest rank against the mean one."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from batchstat.batches import Batches

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class WorstStep:
    """The step in which most is waited for.

    Attributes:
        step: counted from 0.
        rank: the slowest.
        tokens: total tokens of that rank.
        mean_tokens: of all ranks.
        rows: of the largest batch that this rank has in it.
        width: tokens to which they are padded.
        ranks_without: how many ranks have no batch in it.
    """

    step: int
    rank: int
    tokens: int
    mean_tokens: float
    rows: int
    width: int
    ranks_without: int


@dataclass(frozen=True)
class RankCounts:
    """What each step costs its ranks; cost is total tokens, or attention's square of the width.

    Attributes:
        world_size: how many ranks.
        min_steps: steps of the rank that has the fewest.
        max_steps: of the one that has most.
        tokens: total tokens of all ranks.
        slowest_tokens: sum over steps of the slowest rank's total tokens.
        squares: cost of attention of all ranks.
        slowest_squares: sum over steps of the slowest rank's cost of attention.
        worst: the step in which most tokens are waited for.
    """

    world_size: int
    min_steps: int
    max_steps: int
    tokens: int
    slowest_tokens: int
    squares: float
    slowest_squares: float
    worst: WorstStep

    @property
    def step_gap(self) -> int:
        """How many steps more the longest rank has than the shortest."""
        return self.max_steps - self.min_steps

    @property
    def idle(self) -> float:
        """1 − mean rank's total tokens / the slowest one's, both summed over steps."""
        return 1 - self.tokens / (self.world_size * self.slowest_tokens)

    @property
    def idle_quadratic(self) -> float:
        """The same with attention's cost."""
        return max(0.0, 1 - self.squares / (self.world_size * self.slowest_squares))

    @classmethod
    def of(
        cls, turns: Ints, batches: Batches, attention: Ints, accumulate: int, *, even: bool = False
    ) -> "RankCounts":
        """The costs of units that are dealt.

        Args:
            turns: (n_turns, world_size) units; −1 where a rank has none.
            batches: in units.
            attention: (n_batches,) its cost.
            accumulate: turns a step.
            even: whether a rank without a unit takes an empty step.
        """
        linear = steps_of(turns, batches.of_units(batches.total_tokens), accumulate)
        quadratic = steps_of(turns, batches.of_units(attention), accumulate).astype(np.float64)
        slowest = linear.max(axis=1)
        means = linear.mean(axis=1)
        worst = int(np.argmax(slowest - means))
        rank = int(linear[worst].argmax())
        shared = turns[worst * accumulate : (worst + 1) * accumulate]
        its = batches.take(shared[:, rank][shared[:, rank] >= 0])
        largest = int(its.total_tokens.argmax())
        held = (turns >= 0).sum(axis=0)
        return cls(
            world_size=turns.shape[1],
            min_steps=-(-int(held.max() if even else held.min()) // accumulate),
            max_steps=-(-int(held.max()) // accumulate),
            tokens=int(linear.sum()),
            slowest_tokens=int(slowest.sum()),
            squares=float(quadratic.sum()),
            slowest_squares=float(quadratic.max(axis=1).sum()),
            worst=WorstStep(
                step=worst,
                rank=rank,
                tokens=int(slowest[worst]),
                mean_tokens=float(means[worst]),
                rows=int(its.rows[largest]),
                width=int(its.widths[largest]),
                ranks_without=int(np.count_nonzero((shared < 0).all(axis=0))),
            ),
        )


def steps_of(turns: Ints, numbers: Ints, accumulate: int) -> Ints:
    """(n_steps, world_size) sums over the turns of a step of a number that each unit has."""
    found: Ints = numbers[turns]
    if (turns < 0).any():
        found = np.where(turns < 0, 0, found)
    if accumulate == 1:
        return found
    missing = np.zeros((-len(found) % accumulate, turns.shape[1]), dtype=found.dtype)
    whole = np.concatenate([found, missing])
    sums: Ints = whole.reshape(-1, accumulate, turns.shape[1]).sum(axis=1)
    return sums
