"""What every class-balancing sampler is: parameters in its fields, the classes at the call."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from batchstat.lengths.arrays import Ints
from batchstat.parameters import check_fields
from batchstat.planning.classes import Classes


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """Which samples an epoch visits, and how often each: a function of (seed, epoch), so the same
    on every rank and another in every epoch.

    Attributes:
        has_sequence: whether what is drawn comes in a sequence that means something; else the
            order decides it.

    Raises:
        OptionError: a number out of range or not whole.
    """

    has_sequence: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def batch_size(self) -> int | None:
        """Samples of the batches that it is made for; None where any will do."""
        return None

    @abstractmethod
    def draw(self, classes: Classes, *, seed: int, epoch: int) -> Ints:
        """(n_drawn,) samples, rising unless they have a sequence.

        Raises:
            InputError: these classes cannot be drawn so.
        """
