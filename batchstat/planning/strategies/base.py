"""What every strategy is: parameters in its fields, the data at the call."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from batchstat.lengths.stats import LengthStats
from batchstat.parameters import check_fields
from batchstat.planning.plan import BatchPlan, Window

if TYPE_CHECKING:
    from batchstat.planning.strategies.histogram import Summary


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Turns the lengths of one window into a `BatchPlan`.

    Attributes:
        pad_to_multiple_of: a batch's width is rounded up to a multiple of this many tokens,
            before any budget is applied.
        drop_last: the epoch's last batch is left out where it could have held more samples.
        own_parameters: those that are not taken from the settings that strategies share.
        packs_rows: whether a row may hold several samples, which attention has to keep apart.

    Raises:
        OptionError: a number below 1, above 2,147,483,647 or not whole.
    """

    own_parameters: ClassVar[tuple[str, ...]] = ()
    packs_rows: ClassVar[bool] = False

    pad_to_multiple_of: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def window_size(self) -> int | None:
        """How many samples a window holds; None for the whole epoch."""
        return self.looks_ahead

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention knows where the samples of a row begin."""
        return False

    @property
    def cuts_samples(self) -> bool:
        """Whether the parts of a sample may be in several rows, and so in several batches."""
        return False

    @property
    def looks_ahead(self) -> int | None:
        """`read_ahead`; None where the strategy has none, or looks at the whole epoch."""
        size: int | None = getattr(self, "read_ahead", None)
        return size

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> "Summary | None":
        """The batches of an epoch that is one window of these lengths, as `plan` makes them; None
        where it takes the sequence of the samples to say.
        """
        del stats, rng
        return None

    @abstractmethod
    def plan(self, window: Window) -> BatchPlan:
        """Every sample of the window in exactly one batch, but for what `drop_last` leaves out."""
