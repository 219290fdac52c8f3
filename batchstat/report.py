"""`Comparison`: what `compare` finds out, as one record, and how it is made from lengths."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from batchstat.batching import Strategy
from batchstat.batching.planning import plan_windows
from batchstat.batching.spec import parse_strategy
from batchstat.errors import InputError, OptionError
from batchstat.metrics import Batches, PlanCounts, measure
from batchstat.options import MOST, one_of, whole_number
from batchstat.profiling.profile import CorpusFacts, Profile, TokenizerFacts
from batchstat.profiling.stats import Histogram, LengthStats, log_edges
from batchstat.sampling import ORDERS, OVERFLOWS, Epoch, make_epoch, make_order

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_STRATEGIES = ("fixed", "static", "bucketed", "token-budget")
TOKENS_PER_BATCH = 16_384
READ_AHEAD = 10_000
ENOUGH = 0.005
"""A `read_ahead` whose padding ratio is within this of the best is as good as the best."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """The settings that all strategies share, with nothing left to be decided."""

    tokens_per_batch: int
    max_length: int
    overflow: str
    batch_size: int
    read_ahead: int
    max_samples: int | None
    order: str
    seed: int
    epoch: int
    world_size: int
    accumulate: int
    pad_to_multiple_of: int
    drop_last: bool


@dataclass(frozen=True, kw_only=True)
class StrategyResult:
    """One row of the table.

    Attributes:
        name: the bare name of the strategy.
        spec: the strategy as the user wrote it.
        params: all its parameters.
        counts: what its plan computes, pads, cuts and leaves out.
        widths: batches by their width.
    """

    name: str
    spec: str
    params: dict[str, Any]
    counts: PlanCounts
    widths: Histogram


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """What one `read_ahead` gives, all else equal."""

    read_ahead: int
    batches: int
    padding_tokens: int
    total_tokens: int

    @property
    def padding_ratio(self) -> float:
        """Padding tokens / total tokens."""
        return self.padding_tokens / self.total_tokens if self.total_tokens else 0.0


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One strategy over rising `read_ahead`, up to the whole epoch.

    Attributes:
        name: the strategy.
        params: its other parameters.
        points: rising.
    """

    name: str
    params: dict[str, Any]
    points: tuple[SweepPoint, ...]

    @property
    def best(self) -> SweepPoint:
        """The least padding."""
        return min(self.points, key=lambda point: point.padding_ratio)

    @property
    def recommended(self) -> SweepPoint:
        """The smallest `read_ahead` whose padding is within half a point of the best."""
        limit = self.best.padding_ratio + ENOUGH
        return next(point for point in self.points if point.padding_ratio <= limit)


@dataclass(frozen=True)
class Warning:
    """Something that the reader of a table must know: a stable code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Strategies side by side on the same lengths.

    Attributes:
        created: ISO 8601 in UTC.
        samples: of the corpus, before overflow.
        corpus: None where lengths were given.
        tokenizer: None where lengths were given.
        basis: the settings that all rows share.
        strategies: the rows, as asked for.
        sweep: padding against `read_ahead`.
        warnings: what else to know.
    """

    created: str
    samples: int
    corpus: CorpusFacts | None
    tokenizer: TokenizerFacts | None
    basis: Basis
    strategies: tuple[StrategyResult, ...]
    sweep: Sweep
    warnings: tuple[Warning, ...]

    @property
    def reference(self) -> StrategyResult:
        """The row that the others are held against: `static`, or the first."""
        rows = self.strategies
        return next((row for row in rows if row.name == "static"), rows[0])

    @property
    def best(self) -> StrategyResult:
        """Of the rows with the fewest batches at equal peak (5 % more count as equal), the one
        with the least padding. Padding alone would choose tiny batches."""
        peak = max(
            self.basis.tokens_per_batch, min(row.counts.max_batch_tokens for row in self.strategies)
        )
        rows = [row for row in self.strategies if row.counts.max_batch_tokens <= peak]
        fewest = min(row.counts.batches for row in rows)
        close = [row for row in rows if row.counts.batches * 20 <= fewest * 21]
        return min(close, key=lambda row: row.counts.padding_ratio)

    def to_frame(self) -> "pd.DataFrame":
        """A row a strategy, the columns of compare.json's `strategies` but for its parameters."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "strategy": row.spec,
                    **asdict(row.counts),
                    "padding_tokens": row.counts.padding_tokens,
                    "padding_ratio": row.counts.padding_ratio,
                    "fill": row.counts.fill,
                }
                for row in self.strategies
            ]
        )
