"""buckets.json."""

from typing import Annotated, Any

from pydantic import Field

from batchstat.documents.base import (
    AtLeastOne,
    Count,
    Document,
    File,
    Positive,
    Ratio,
    head,
    one_of,
)
from batchstat.documents.comparison import Compared, Model, Warned
from batchstat.documents.corpus import corpus_of
from batchstat.documents.device import Calibrated, calibrated
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.parameters import described
from batchstat.planning.rules import COSTS

SCHEMA = "batchstat.buckets/3"

Seconds = Annotated[float, Field(ge=0)]


@described("One bucket of the optimal edges.")
class Bucket(Document):
    edge: Positive
    """The longest length that it may hold."""
    samples: Count
    """How many samples it holds."""
    real_tokens: Count
    """Their tokens."""
    batch_size: Positive
    """tokens_per_batch // edge, at least 1."""
    padding_tokens: Count
    """total_tokens - real_tokens."""
    total_tokens: Count
    """samples x edge."""


@described("The edges that a rule gives for one number of buckets.")
class RulePoint(Document):
    buckets: Annotated[Positive, Field(validation_alias="wanted")]
    """How many the rule was asked for."""
    edges: list[Positive]
    """Those it found, rising, inclusive; it may be fewer."""
    real_tokens: Count
    """Tokens of all samples."""
    total_tokens: Positive
    """Tokens of all samples padded to their edges."""
    padding_ratio: Ratio
    """1 - real_tokens / total_tokens."""
    relative_cost: Annotated[AtLeastOne, Field(validation_alias="cost")]
    """Cost of all samples padded to their edges / of the samples as they are. By time, short
    batches and compiling are in the first, and full batches in the second."""


@described("A rule for bucket edges.")
class Rule(Document):
    name: str
    """optimal, quantile, uniform, geometric, equal-tokens or equal-cost."""
    points: list[RulePoint]
    """One per number of buckets."""


@described("How long training takes with the optimal edges for one number of buckets.")
class BucketTime(Document):
    buckets: Annotated[Positive, Field(validation_alias="wanted")]
    """How many were asked for."""
    edges: list[Positive]
    """Those found; it may be fewer."""
    seconds: Seconds
    """batch_seconds + compile_seconds."""
    batch_seconds: Seconds
    """Of the batches of all epochs, by the slowest rank in each step."""
    compile_seconds: Seconds
    """Of compiling each shape, once."""
    shapes: Positive
    """Distinct (rows, width) of the batches, short ones included."""
    is_extrapolated: bool
    """Whether a batch is larger or wider than all that were measured."""
    fits_memory: bool | None
    """Whether the peak fits, with the margin of the calibration's worst residual; null where memory
    has no limit or is not known."""


@described("Upper edges of buckets. Keys may be added within this schema.")
class BucketsFile(Compared, File):
    cost: one_of(COSTS)  # type: ignore[valid-type]
    """What the optimal edges minimise: linear is padding, quadratic is attention, model is a
    transformer's cost, time is by a calibration."""
    model: Model | None
    """The shape of the transformer that --model names."""
    calibration: Calibrated | None
    """The calibration that --calibration names."""
    min_bucket_samples: Positive
    """Samples in each bucket, at least."""
    epochs: Positive
    """Epochs that times are of."""
    times: list[BucketTime]
    """Times by the number of buckets; none without a calibration."""
    recommended: Positive | None
    """The number of buckets with the least time; null without a calibration."""
    strategy: Annotated[str, Field(validation_alias="spec")]
    """The boundaries strategy with the optimal edges, rows as wide as edges: the first of
    strategies."""
    strategies: Annotated[list[Strategy], Field(min_length=1, max_length=2)]
    """What the optimal edges give under the settings, as compare has it: short batches dropped,
    which gives one shape per bucket, and kept; the one to use first, with a calibration kept."""
    buckets: Annotated[list[Bucket], Field(min_length=1)]
    """The buckets of the optimal edges, rising."""
    rules: list[Rule]
    """What each rule gives."""
    warnings: list[Warned]
    """What does not fit the device, and what is extrapolated."""


def buckets_document(report: Any) -> dict[str, Any]:
    """Return buckets.json of a `batchstat.simulation.buckets.search.BucketReport`."""
    made = {
        **head(SCHEMA, report.created),
        "corpus": corpus_of(report.corpus, report.samples),
        "calibration": calibrated(report.device, report.basis.widest),
        "strategies": [strategy_of(row, report.model) for row in report.uses],
        "rules": [{"name": rule, "points": points} for rule, points in report.found.items()],
    }
    return BucketsFile.of(made, report).to_json()
