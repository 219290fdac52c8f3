"""The steps of an epoch over time, on the slowest and on the mean rank, in few points."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Ints


class Timeline(NamedTuple):
    """Points that each stand for the same number of steps; the last may stand for fewer.

    Attributes:
        edges: (n_points + 1,) the first step of each point, and the number of steps.
        slowest: (n_points,) the most total tokens of any rank in any of these steps.
        mean: (n_points,) mean total tokens per rank and step.
    """

    edges: Ints
    slowest: Ints
    mean: npt.NDArray[np.float64]

    @classmethod
    def of(cls, steps: npt.NDArray[np.integer], most: int) -> "Timeline":
        """Return at most `most` points.

        Args:
            steps: (n_steps, world_size) total tokens of each rank in each step.
            most: number of points.
        """
        size = -(-len(steps) // most)
        edges = np.append(np.arange(0, len(steps), size), len(steps))
        slowest = np.maximum.reduceat(steps.max(axis=1), edges[:-1])
        mean = np.add.reduceat(steps.mean(axis=1), edges[:-1]) / np.diff(edges)
        return cls(edges, slowest, mean)

    @property
    def steps_per_point(self) -> int:
        """Steps that a point stands for."""
        return int(self.edges[1])
