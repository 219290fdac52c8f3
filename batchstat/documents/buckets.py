"""buckets.json."""

from typing import Annotated, Any

from batchstat.documents.base import Document
from batchstat.documents.comparison import Compared, Model
from batchstat.documents.device import Calibrated
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.findings import Finding
from batchstat.parameters import described
from batchstat.planning.rules import COSTS
from batchstat.records import (
    Amount,
    AtLeastOne,
    Count,
    Positive,
    Ratio,
    Record,
    allowed,
    among,
    told,
    told_of,
    untold,
)


@described("One bucket of the optimal edges.")
class Bucket(Record):
    edge: Positive = told("The longest length that it may hold.")
    samples: Count = told("How many samples it holds.")
    real_tokens: Count = told("Their tokens.")
    batch_size: Positive = told("tokens_per_batch // edge, at least 1.")

    @property
    @told_of("total_tokens - real_tokens.")
    def padding_tokens(self) -> Count:
        return self.total_tokens - self.real_tokens

    @property
    @told_of("samples x edge.")
    def total_tokens(self) -> Count:
        return self.samples * self.edge


@described("The edges that a rule gives for one number of buckets.")
class Edges(Record):
    rule: str = untold()
    wanted: Positive = told("How many the rule was asked for.", key="buckets")
    edges: tuple[Positive, ...] = told("Those it found, rising, inclusive; it may be fewer.")
    real_tokens: Count = told("Tokens of all samples.")
    total_tokens: Positive = told("Tokens of all samples padded to their edges.")
    cost: AtLeastOne = told(
        "Cost of all samples padded to their edges / of the samples as they are. By time, short "
        "batches and new shapes are in the first, and full batches in the second.",
        key="relative_cost",
    )

    @property
    @told_of("1 - real_tokens / total_tokens.", after="total_tokens")
    def padding_ratio(self) -> Ratio:
        return 1 - self.real_tokens / self.total_tokens


@described("A rule for bucket edges.")
class Rule(Document):
    name: str = told("optimal, quantile, uniform, geometric, equal-tokens or equal-cost.")
    points: list[Edges] = told("One per number of buckets.")


@described("How long training takes with the optimal edges for one number of buckets.")
class BucketTime(Record):
    wanted: Positive = told("How many were asked for.", key="buckets")
    edges: tuple[Positive, ...] = told("Those found; it may be fewer.")
    batch_seconds: Amount = told("Of the batches of all epochs, by the slowest rank.")
    shape_seconds: Amount = told("What the first batch of each shape takes longer.")
    shapes: Positive = told("Distinct (rows, width) of the batches, short ones included.")
    is_extrapolated: bool = told("Whether a batch is larger or wider than all that were measured.")
    fits_memory: bool | None = told(
        "Whether the peak fits, with the margin of the calibration's worst residual; null where "
        "memory has no limit or is not known."
    )

    @property
    @told_of("batch_seconds + shape_seconds.", after="edges")
    def seconds(self) -> Amount:
        return self.batch_seconds + self.shape_seconds


@described("Upper edges of buckets. Keys may be added within this schema.")
class BucketsFile(Compared, number="batchstat.buckets/6"):
    cost: Annotated[str, among(COSTS)] = told(
        "What the optimal edges minimise: linear is padding, quadratic is attention, model is a "
        "transformer's cost, time is by a calibration."
    )
    model: Model | None = told("The shape of the transformer that --model names.")
    calibration: Calibrated | None = told("The calibration that --calibration names.")
    min_bucket_samples: Positive = told("Samples in each bucket, at least.")
    epochs: Positive = told("Epochs that times are of.")
    times: list[BucketTime] = told("Times by the number of buckets; none without a calibration.")
    recommended: Positive | None = told(
        "The number of buckets with the least time; null without a calibration."
    )
    strategy: str = told(
        "The boundaries strategy with the optimal edges, rows as wide as edges: the first of "
        "strategies.",
        of="spec",
    )
    strategies: Annotated[list[Strategy], allowed(minItems=1, maxItems=2)] = told(
        "What the optimal edges give under the settings, as compare has it: short batches "
        "dropped, which gives one shape per bucket, and kept; the one to use first, with a "
        "calibration kept."
    )
    buckets: Annotated[list[Bucket], allowed(minItems=1)] = told(
        "The buckets of the optimal edges, rising."
    )
    rules: list[Rule] = told("What each rule gives.")
    warnings: list[Finding] = told("What does not fit the device, and what is extrapolated.")


def buckets_document(report: Any) -> dict[str, Any]:
    """Return buckets.json of a `batchstat.simulation.buckets.search.BucketReport`."""
    composed = {
        "strategies": [strategy_of(row, report.model) for row in report.uses],
        "rules": [{"name": rule, "points": points} for rule, points in report.found.items()],
    }
    return BucketsFile.of_report(report, composed)
