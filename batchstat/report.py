"""`Comparison`: what `compare` finds out, as one record of counts with its ratios as properties."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from batchstat.batching.spec import with_parameter
from batchstat.metrics import PlanCounts
from batchstat.profiling.record import CorpusFacts, TokenizerFacts
from batchstat.profiling.stats import Histogram
from batchstat.settings import Basis

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 0.005
"""A `read_ahead` whose padding ratio is within this of the best is as good as the best."""


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
        return self.padding_tokens / self.total_tokens


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One strategy over rising `read_ahead`, up to the whole epoch.

    Attributes:
        spec: the strategy, as it is written.
        points: rising.
    """

    spec: str
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

    @property
    def recommended_spec(self) -> str:
        """The strategy with the recommended `read_ahead`, to paste after `--strategy`."""
        return with_parameter(self.spec, "read_ahead", self.recommended.read_ahead)


@dataclass(frozen=True)
class ReportWarning:
    """Something that the reader of a table must know: a stable code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class Simulation:
    """One strategy on the lengths of a corpus.

    Attributes:
        basis: its settings.
        row: what it gives.
        warnings: what else to know.
    """

    basis: Basis
    row: StrategyResult
    warnings: tuple[ReportWarning, ...]


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
        best: the row that a reader should look at first.
        sweep: padding against `read_ahead`.
        warnings: what else to know.
    """

    created: str
    samples: int
    corpus: CorpusFacts | None
    tokenizer: TokenizerFacts | None
    basis: Basis
    strategies: tuple[StrategyResult, ...]
    best: StrategyResult
    sweep: Sweep
    warnings: tuple[ReportWarning, ...]

    @property
    def reference(self) -> StrategyResult:
        """The row that the others are held against: `static`, or the first."""
        rows = self.strategies
        return next((row for row in rows if row.name == "static"), rows[0])

    def to_frame(self) -> "pd.DataFrame":
        """A row a strategy: as it was written, what it counts, and the ratios of that."""
        import pandas as pd

        internal = ("tokens_per_batch", "visited_tokens", "sum_samples_per_batch")
        ratios = (
            "padding_tokens",
            "padding_ratio",
            "fill",
            "truncated_ratio",
            "dropped_ratio",
            "mean_samples_per_batch",
        )
        rows = []
        for row in self.strategies:
            counts = {key: n for key, n in asdict(row.counts).items() if key not in internal}
            derived = {name: getattr(row.counts, name) for name in ratios}
            rows.append({"strategy": row.spec, **counts, **derived})
        return pd.DataFrame(rows)
