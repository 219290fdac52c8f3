"""`BucketReport`: bucket edges by every rule, and what they give."""

from collections.abc import Mapping
from dataclasses import dataclass

from batchstat.calibration.cost_model import CostModel
from batchstat.documents.buckets import Bucket, BucketTime, Edges
from batchstat.findings import Finding
from batchstat.lengths.stats import LengthStats
from batchstat.planning.settings import ResolvedSettings
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.simulation.buckets.costs import fastest
from batchstat.simulation.device import Device
from batchstat.simulation.results import StrategyResult


@dataclass(frozen=True, kw_only=True, repr=False)
class BucketReport:
    """The results of `batchstat buckets`."""

    created: str  # time of creation, ISO 8601 in UTC
    samples: int  # number of samples in the corpus
    corpus: CorpusFacts | None  # facts about the corpus; None if lengths were given
    tokenizer: TokenizerFacts | None  # facts about the tokenizer; None if lengths were given
    basis: ResolvedSettings  # the settings
    lengths: LengthStats  # statistics of the lengths that the buckets hold, at least 1 token each
    cost: str  # what the optimal edges minimise: `linear` is padding
    model: CostModel | None  # the transformer, if `cost` is `model`
    wanted: int  # requested number of buckets
    min_bucket_samples: int  # fewest samples per bucket
    epochs: int  # number of epochs after which training ends; counts with a calibration
    times: tuple[BucketTime, ...]  # of the optimal edges, by number; empty without a calibration
    buckets: tuple[Bucket, ...]  # the buckets of the optimal edges, for the requested number
    found: Mapping[str, tuple[Edges, ...]]  # edges by rule, for each number of buckets
    # The optimal edges simulated with the settings, rows padded to the edges: with short batches
    # dropped, which makes one shape per bucket, and with short batches kept. The better one comes
    # first; with a calibration that is the one with short batches kept.
    uses: tuple[StrategyResult, ...]
    device: Device | None = None  # the calibrated device that trains; None without one
    warnings: tuple[Finding, ...] = ()  # what does not fit the device, or is extrapolated

    def __repr__(self) -> str:
        """Return the strategy to use, and what it gives."""
        use = self.uses[0].counts
        return (
            f"BucketReport({self.spec!r}: {use.padding_ratio:.1%} padding, "
            f"{use.distinct_shapes:,} shapes)"
        )

    @property
    def chosen(self) -> Edges:
        """The optimal edges for `wanted` buckets."""
        return next(edges for edges in self.found["optimal"] if edges.wanted == self.wanted)

    def of(self, rule: str, wanted: int) -> Edges | None:
        """Return a rule's edges for `wanted` buckets; None if there are fewer distinct lengths."""
        return next((edges for edges in self.found[rule] if edges.wanted == wanted), None)

    @property
    def recommended(self) -> int | None:
        """The number of buckets with the least time; None without a calibration."""
        return fastest(self.times).wanted if self.times else None

    @property
    def spec(self) -> str:
        """The strategy to use, to paste after `--strategy`."""
        return self.uses[0].label
