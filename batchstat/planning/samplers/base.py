"""Base class of all samplers: parameters are fields, the classes are given to `draw`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from batchstat.lengths.arrays import Ints
from batchstat.parameters import check_fields
from batchstat.planning.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """A choice of an epoch's samples, and how often each comes: by (seed, epoch), so the same on
    every rank. Raises OptionError: a number out of range or not whole.
    """

    has_sequence: ClassVar[bool] = False  # whether it orders what it draws, and `order` does not
    draws_by_chance: ClassVar[bool] = False  # whether counts of classes differ by chance

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def batch_size(self) -> int | None:
        """Samples per batch that it is made for; None for any."""
        return None

    @property
    def drawn_together(self) -> int:
        """Samples of the same class that are drawn at a time."""
        return 1

    @abstractmethod
    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """Return (n_drawn,) samples, ascending unless they have a sequence. Raises InputError:
        these classes cannot be drawn like this.
        """
