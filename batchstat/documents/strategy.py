"""The numbers of one strategy on one epoch."""

from typing import Annotated, Any

from pydantic import Field

from batchstat.documents.base import (
    Amount,
    AtLeastOne,
    Count,
    Document,
    Positive,
    Ratio,
    UnboundedRatio,
    View,
    one_of,
    rows_of,
)
from batchstat.documents.corpus import Histogram
from batchstat.documents.ranks import Ranks, timeline_of
from batchstat.documents.spreads import Interval, Seeds, seeds_of
from batchstat.documents.trained import Trained
from batchstat.parameters import described
from batchstat.planning.batch_table import BatchTable

SHUFFLING = ("full", "partial", "sorted", "blocks", "none")

MOST_BATCHES = 32
"""Of the first batches of a plan."""

_ROUNDED_ONE = 1.000001
"""A correlation may exceed 1 by what rounding adds."""


@described("Samples of a batch, the parts of split ones each counted.")
class SamplesPerBatch(Document):
    min: Positive
    mean: AtLeastOne
    max: Positive


@described(
    """What is computed / what the real tokens need, each sample alone: an estimate, at least 1. A
    row of w tokens costs w (linear), w squared as attention does (quadratic), or by the shape of a
    transformer (model).
    """
)
class RelativeCost(Document):
    linear: AtLeastOne
    """In proportion to the width of rows: 1 / (1 - padding_ratio)."""
    quadratic: AtLeastOne
    """In proportion to the square of the width of rows, as attention: in packed rows also between
    samples, unless attention knows where they begin, as padding-free has it."""
    model: AtLeastOne | None
    """By the shape of the transformer that --model names."""


@described("How far batches are from random ones: what people see as a saw-tooth in the loss.")
class Grouping(Document):
    neighbour_correlation: Annotated[float, Field(ge=-_ROUNDED_ONE, le=_ROUNDED_ONE)] | None
    """Correlation of a step's mean length with the next one's (Pearson): near 1 where batches come
    sorted, near 0 where they are shuffled; null for fewer than 4 steps."""
    length_homogeneity: Annotated[float, Field(le=_ROUNDED_ONE)] | None
    """Ratio of the variance of lengths that lies between batches, beyond what it is in random
    batches (epsilon squared): 0 for random batches, 1 where every batch holds one length."""
    samples_per_batch_cv: Amount
    """Standard deviation / mean of the samples of a batch."""
    tokens_per_step_cv: Amount
    """Standard deviation / mean of the real tokens of a step."""


@described("Different classes of a batch.")
class ClassesPerBatch(Document):
    min: Count
    mean: Amount
    max: Positive


@described("The classes of batches. A sample of several labels counts as the rarest of them.")
class Mixing(Document):
    classes_per_batch: ClassesPerBatch
    single_class_batches: Count
    """Batches whose samples are all of one class."""
    single_class_ratio: Ratio
    """single_class_batches / batches."""
    class_homogeneity: Annotated[float, Field(le=_ROUNDED_ONE)] | None
    """How far batching sorts the classes apart (Fleiss's kappa): 0 where batches are as mixed as
    random ones, 1 where every batch holds one class, below 0 where each holds the same mixture;
    null where there is but one class, or no batch of two samples."""


@described("One batch.")
class FirstBatch(Document):
    rows: Positive
    width: Count
    """Tokens to which its rows are padded."""
    tokens: Count
    """Real tokens."""


@described("One strategy on one epoch: a row of the table.")
class Strategy(Document):
    name: str
    """The strategy."""
    label: str
    """The strategy as it was written."""
    params: dict[str, Any]
    """All its parameters."""
    samples: Count
    """Samples in batches, each time one is: whole ones, a split one counted once."""
    rows: Positive
    """What is padded to the width of its batch: one sample, or several when packed."""
    batches: Positive
    """Forward passes of an epoch, of all ranks together: rows of one width each."""
    steps: Positive
    """Optimizer updates of an epoch: gradient_accumulation_steps batches on each rank."""
    real_tokens: Count
    """Sum of the lengths of the samples in batches."""
    padding_tokens: Count
    """total_tokens - real_tokens."""
    total_tokens: Count
    """Sum over batches of rows x width: what is computed."""
    padding_ratio: Annotated[float, Field(ge=0, lt=1, json_schema_extra={"x-unit": "ratio"})]
    """padding_tokens / total_tokens."""
    fill: UnboundedRatio
    """total_tokens / (batches x tokens_per_batch): how much of the budget is used. Above 1 where
    batches are over the budget."""
    packing_efficiency: UnboundedRatio | None
    """Real tokens / (rows x max_length): how full rows are. Null where rows have no length of
    their own."""
    compute: Count
    """Estimated work of the epoch: total tokens, or operations where a model is named, or
    picoseconds where a calibration has times; with several ranks, the slowest one of each step."""
    shuffling: one_of(SHUFFLING)  # type: ignore[valid-type]
    """How random batches are: full, partial (lengths differ somewhat between batches), sorted
    (batches hold similar lengths), blocks (of the corpus), or none (its order)."""
    speed_up: Amount | None
    """Compute of the current setup / compute of this row, an estimate; null outside of a
    comparison."""
    seconds: Amount | None
    """Time of the epoch by the calibration, with the slowest rank of each step, and without what
    ranks spend on communication; of the first epoch where shapes are compiled. Null without a
    calibration that has times."""
    cost: Amount | None
    """Cost of that time on all ranks; null without --cost-per-hour."""
    peak_bytes: Count | None
    """Memory of one device at the peak, by the calibration; null where that is not known."""
    fits_memory: bool | None
    """Whether the peak fits the device, with the margin of the calibration's worst residual where
    no batch as large was measured; null where that is not known."""
    is_extrapolated: bool
    """Whether seconds and peak_bytes are of batches beyond those that were measured."""
    max_batch_tokens: Count
    """Total tokens of the largest batch: what memory has to hold."""
    largest_step: Positive
    """Optimizer step with that batch, counted from 1."""
    over_budget_batches: Count
    """Batches with more than tokens_per_batch total tokens."""
    distinct_shapes: Positive
    """Different (rows, width) of batches: what XLA and compiled graphs compile for."""
    truncated_samples: Count
    """Samples that max_length truncates, or a trainer by its configuration."""
    truncated_tokens: Count
    """Tokens that are lost to it."""
    truncated_ratio: Ratio
    """truncated_tokens / tokens of the epoch's samples."""
    dropped_samples: Count
    """Samples that are drawn, and that no batch holds; of a trainer's configuration, those that it
    leaves out before, too."""
    dropped_tokens: Count
    """Tokens that no batch holds, those of samples dropped in part too."""
    dropped_ratio: Ratio
    """dropped_tokens / tokens of the epoch's samples."""
    dropped_again: Count | None
    """How many of dropped_samples the next epoch drops too: all of them are never trained. Null
    where none is dropped, or not all of the corpus is drawn."""
    duplicated_samples: Count
    """Times that samples are computed beyond what the sampler draws: repeated to make the ranks
    even, or by ranks that draw for themselves."""
    duplicated_tokens: Count
    """Tokens that are computed beyond the first time."""
    duplicated_ratio: Ratio
    """duplicated_tokens / real_tokens."""
    unique_samples: Count
    """Samples that are computed, each counted once."""
    coverage: Ratio
    """unique_samples / samples of the corpus: what of it an epoch sees."""
    max_repeats: Positive
    """How often the sample is computed that is computed most often."""
    accuracy_bound: Ratio
    """How far an accuracy over all that is computed can be from that over the corpus with each
    sample counted once: by repeats, and by dropped samples."""
    samples_per_batch: SamplesPerBatch
    relative_cost: RelativeCost
    grouping: Grouping
    mixing: Mixing | None
    """The classes of batches; null where there are no labels. A sample of several labels counts as
    the rarest of them."""
    rank_idle: Ratio
    """Ratio of the ranks' time in which they wait for the slowest one: 1 - mean rank's cost /
    slowest rank's, both summed over steps, where cost is total tokens."""
    rank_idle_quadratic: Ratio
    """The same where cost is attention's: the square of the width."""
    rank_idle_time: Ratio | None
    """The same where cost is the calibration's time; null without a calibration that has times."""
    ranks: Ranks
    trained: Trained | None
    """The tokens that carry loss; null where these are unknown and no --loss asks for them."""
    seeds: Seeds | None
    """Mean, standard deviation and extremes over --seeds; null for one seed."""
    interval: Interval | None
    """Where the padding ratio of the whole corpus lies; null where all of it was simulated."""
    widths: Histogram
    """How many batches have which width: edges and counts."""
    first_batches: list[FirstBatch] | None
    """The first batches of the plan, at most 32; null outside of a comparison."""


def strategy_of(row: Any, model: Any = None, speed_up: float | None = None) -> Strategy:
    """Return the numbers of one strategy.

    Args:
        row: a `batchstat.simulation.results.StrategyResult`.
        model: a `batchstat.CostModel`, where one is named.
        speed_up: over the current setup, in a comparison.
    """
    counts = row.counts
    held = [each.samples for each in counts.sample_coverage.ranks]
    extremes = {"min_samples": min(held), "max_samples": max(held)}
    composed = {
        "speed_up": speed_up,
        "samples_per_batch": {
            "min": counts.min_samples_per_batch,
            "mean": counts.mean_samples_per_batch,
            "max": counts.max_samples_per_batch,
        },
        "relative_cost": {
            "linear": counts.relative_cost(1, 0),
            "quadratic": counts.relative_cost(0, 1),
            "model": model and counts.relative_cost(model.linear, model.quadratic),
        },
        "mixing": counts.sample_coverage.mixing and _mixing(counts.sample_coverage.mixing),
        "ranks": View(
            extremes,
            {"timeline": None if speed_up is None else timeline_of(row.timeline)},
            *(row, counts.ranks, counts.sample_coverage),
        ),
        "seeds": row.seeds and seeds_of(row.seeds),
        "first_batches": None if row.first_batches is None else _batches(row.first_batches),
    }
    return Strategy.of(composed, counts, counts.sample_coverage, row.on_device, row)


def _mixing(mixing: Any) -> View:
    per_batch = {
        "min": mixing.min_classes,
        "mean": mixing.mean_classes,
        "max": mixing.max_classes,
    }
    return View({"classes_per_batch": per_batch, "class_homogeneity": mixing.homogeneity}, mixing)


def _batches(plan: Any) -> list[dict[str, Any]]:
    table = BatchTable.of([plan])
    columns = (table.rows, table.widths, table.tokens)
    return rows_of(FirstBatch, [column[:MOST_BATCHES] for column in columns])
