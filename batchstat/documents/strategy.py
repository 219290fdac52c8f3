"""The numbers of one strategy on one epoch."""

from typing import Annotated, Any

from batchstat.documents.base import Document, rows_of
from batchstat.documents.grouping import Grouping, Mixing
from batchstat.documents.spreads import Interval, SeedSpread
from batchstat.documents.trained import TrainedCounts
from batchstat.lengths.stats import Histogram
from batchstat.parameters import described
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.rules import DISTRIBUTIONS, REMAINDERS
from batchstat.records import (
    SAME,
    Amount,
    AtLeastOne,
    Count,
    Positive,
    Ratio,
    Record,
    UnboundedRatio,
    allowed,
    among,
    told,
)

SHUFFLING = ("full", "partial", "sorted", "blocks", "none")

MOST_BATCHES = 32  # of the first batches of a plan


@described(
    "The step in which most tokens are waited for; where ranks wait in each micro-batch, its "
    "micro-batch of the longest wait."
)
class WorstStep(Record):
    step: Count = told("Counted from 0.")
    rank: Count = told("The slowest.")
    tokens: Count = told("Total tokens of that rank.")
    mean_tokens: Amount = told("Total tokens of the mean rank.")
    rows: Positive = told("Rows of the largest batch that this rank has in it.")
    width: Count = told("Tokens to which they are padded.")
    ranks_without: Count = told("How many ranks have no batch in it.")


@described("Some consecutive steps.")
class TimelinePoint(Document):
    first_step: Count = told("Counted from 0.")
    steps: Positive = told("How many steps it stands for.")
    slowest_tokens: Count = told(
        "Total tokens of the slowest rank, the most of any of these steps; where ranks wait in "
        "each micro-batch, the sum over those of the step."
    )
    mean_tokens: Amount = told("Mean total tokens per rank and step.")


@described("What the ranks get.")
class Ranks(Document):
    distribute: Annotated[str, among(DISTRIBUTIONS)]
    remainder: Annotated[str, among(REMAINDERS)]
    min_steps: Count = told("Steps of the rank that has the fewest.", of="ranks.min_steps")
    max_steps: Count = told("Steps of the rank that has most.", of="ranks.max_steps")
    step_gap: Count = told(
        "max_steps - min_steps: above 0, collectives hang once the ranks with fewer steps are "
        "done.",
        of="ranks.step_gap",
    )
    min_samples: Count = told("Samples of the rank that has the fewest, repeats counted.")
    max_samples: Positive = told("Samples of the rank that has most.")
    shared_samples: Count = told("Samples that several ranks compute.")
    worst: WorstStep = told(of="ranks.worst")
    timeline: list[TimelinePoint] | None = told(
        "The steps in turn, in at most 100 points; null for one rank, and outside of a comparison."
    )


@described("Samples of a batch, the parts of split ones each counted.")
class SamplesPerBatch(Document):
    min: Positive = told(of="min_samples_per_batch")
    mean: AtLeastOne = told(of="mean_samples_per_batch")
    max: Positive = told(of="max_samples_per_batch")


@described(
    """What is computed / what the real tokens need, each sample alone: an estimate, at least 1. A
    row of w tokens costs w (linear), w squared as attention does (quadratic), or by the shape of a
    transformer (model).
    """
)
class RelativeCost(Document):
    linear: AtLeastOne = told("In proportion to the width of rows: 1 / (1 - padding_ratio).")
    quadratic: AtLeastOne = told(
        "In proportion to the square of the width of rows, as attention: in packed rows also "
        "between samples, unless attention knows where they begin, as padding-free has it."
    )
    model: AtLeastOne | None = told("By the shape of the transformer that --model names.")


@described("One batch.")
class FirstBatch(Document):
    rows: Positive
    width: Count = told("Tokens to which its rows are padded.")
    tokens: Count = told("Real tokens.")


@described("One strategy on one epoch: a row of the table.")
class Strategy(Document):
    name: str = told("The strategy.")
    label: str = told("The strategy as it was written.")
    params: dict[str, Any] = told("All its parameters.")
    samples: Count = told(
        "Samples in batches, each time one is: whole ones, a split one counted once."
    )
    rows: Positive = told(
        "What is padded to the width of its batch: one sample, or several when packed."
    )
    batches: Positive = told(
        "Forward passes of an epoch, of all ranks together: rows of one width each."
    )
    steps: Count = told(
        "Optimizer updates of an epoch: gradient_accumulation_steps batches on each rank."
    )
    real_tokens: Count = told("Sum of the lengths of the samples in batches.")
    padding_tokens: Count = told("total_tokens - real_tokens.")
    total_tokens: Count = told("Sum over batches of rows x width: what is computed.")
    padding_ratio: Annotated[float, allowed(minimum=0, exclusiveMaximum=1, unit="ratio")] = told(
        "padding_tokens / total_tokens."
    )
    fill: UnboundedRatio = told(
        "total_tokens / (batches x tokens_per_batch): how much of the budget is used. Above 1 "
        "where batches are over the budget."
    )
    packing_efficiency: UnboundedRatio | None = told(
        "Real tokens / (rows x max_length): how full rows are. Null where rows have no length of "
        "their own."
    )
    compute: Count = told(
        "Estimated work of the epoch: total tokens, or operations where a model is named, or "
        "picoseconds where a calibration has times; with several ranks, the slowest one "
        "wherever they wait for each other (`wait`)."
    )
    shuffling: Annotated[str, among(SHUFFLING)] = told(
        "How random batches are: full, partial (lengths differ somewhat between batches), sorted "
        "(batches hold similar lengths), blocks (of the corpus), or none (its order)."
    )
    packs_rows: bool = told("Whether rows hold several samples, which attention must keep apart.")
    speed_up: Amount | None = told(
        "Compute of the current setup / compute of this row, an estimate; null outside of a "
        "comparison."
    )
    seconds: Amount | None = told(
        "Time of the epoch by the calibration, with the slowest rank wherever ranks wait for each "
        "other, and without what they spend on communication; of the first epoch where new shapes "
        "cost time. Null without a calibration that has times."
    )
    cost: Amount | None = told("Cost of that time on all ranks; null without --cost-per-hour.")
    peak_bytes: Count | None = told(
        "Memory of one device at the peak, by the calibration; null where that is not known."
    )
    fits_memory: bool | None = told(
        "Whether the peak fits the device, with the margin of the calibration's worst residual "
        "where no batch as large was measured; null where that is not known."
    )
    is_extrapolated: bool = told(
        "Whether seconds and peak_bytes are of batches beyond those that were measured."
    )
    mean_batch_tokens: Amount = told("Mean total tokens of a batch.")
    max_batch_tokens: Count = told("Total tokens of the largest batch: what memory has to hold.")
    largest_step: Positive = told("Optimizer step with that batch, counted from 1.")
    over_budget_batches: Count = told(
        "Batches with more than tokens_per_batch total tokens, or above the budget of a strategy "
        "that caps something else."
    )
    distinct_shapes: Positive = told(
        "Different (rows, width) of batches: what XLA and compiled graphs compile for."
    )
    truncated_samples: Count = told(
        "Samples that max_length truncates, or a trainer by its configuration."
    )
    truncated_tokens: Count = told("Tokens that are lost to it.")
    truncated_ratio: Ratio = told("truncated_tokens / tokens of the epoch's samples.")
    dropped_samples: Count = told(
        "Samples that are drawn, and that no batch holds; of a trainer's configuration, those "
        "that it leaves out before, too."
    )
    dropped_tokens: Count = told(
        "Tokens that no batch holds, those of samples dropped in part too."
    )
    dropped_ratio: Ratio = told("dropped_tokens / tokens of the epoch's samples.")
    dropped_again: Count | None = told(
        "How many of dropped_samples the next epoch drops too: all of them are never trained. "
        "Null where none is dropped, not all of the corpus is drawn, or the batches were made "
        "elsewhere."
    )
    duplicated_samples: Count = told(
        "Times that samples are computed beyond what the sampler draws: repeated to make the "
        "ranks even, or by ranks that draw for themselves."
    )
    duplicated_tokens: Count = told("Tokens that are computed beyond the first time.")
    duplicated_ratio: Ratio = told("duplicated_tokens / real_tokens.")
    unique_samples: Count = told("Samples that are computed, each counted once.")
    coverage: Ratio = told("unique_samples / samples of the corpus: what of it an epoch sees.")
    max_repeats: Positive = told("How often the sample is computed that is computed most often.")
    accuracy_bound: Ratio = told(
        "How far an accuracy over all that is computed can be from that over the corpus with each "
        "sample counted once: by repeats, and by dropped samples."
    )
    samples_per_batch: SamplesPerBatch = told(of=SAME)
    relative_cost: RelativeCost
    grouping: Grouping
    mixing: Mixing | None = told(
        "The classes of batches; null where there are no labels. A sample of several labels "
        "counts as the rarest of them."
    )
    rank_idle: Ratio = told(
        "Ratio of the ranks' time in which they wait for the slowest one: 1 - mean rank's cost / "
        "slowest rank's, both summed over steps, or micro-batches by `wait`; cost is total tokens."
    )
    rank_idle_quadratic: Ratio = told(
        "The same where cost is attention's: the square of the width."
    )
    rank_idle_time: Ratio | None = told(
        "The same where cost is the calibration's time; null without a calibration that has times."
    )
    ranks: Ranks = told(of=SAME)
    trained: TrainedCounts | None = told(
        "The tokens that carry loss; null where these are unknown and no --loss asks for them."
    )
    seeds: SeedSpread | None = told(
        "Mean, standard deviation and extremes over --seeds; null for one seed."
    )
    interval: Interval | None = told(
        "Where the padding ratio of the whole corpus lies; null where all of it was simulated."
    )
    widths: Histogram = told("How many batches have which width: edges and counts.")
    first_batches: list[FirstBatch] | None = told(
        "The first batches of the plan, at most 32; null outside of a comparison."
    )


def strategy_of(row: Any, model: Any = None, speed_up: float | None = None) -> dict[str, Any]:
    """Return the numbers of one strategy."""
    counts = row.counts
    first_batches = None
    if row.first_batches is not None:
        table = BatchTable.of([row.first_batches])
        columns = (table.rows, table.widths, table.tokens)
        first_batches = rows_of(FirstBatch, [column[:MOST_BATCHES] for column in columns])
    timeline = None
    # Only in comparisons, whose rows have a speed-up; None for one rank.
    if speed_up is not None and (line := row.timeline) is not None:
        steps = line.edges[1:] - line.edges[:-1]
        timeline = rows_of(TimelinePoint, (line.edges[:-1], steps, line.slowest, line.mean))
    samples_of_ranks = [rank.samples for rank in counts.sample_coverage.ranks]
    composed = {
        "speed_up": speed_up,
        # `linear` is the cost per token of a row, and `quadratic` per pair of its tokens.
        "relative_cost": {
            "linear": counts.relative_cost(linear=1, quadratic=0),
            "quadratic": counts.relative_cost(linear=0, quadratic=1),
            # None without a model.
            "model": model and counts.relative_cost(model.linear, model.quadratic),
        },
        # Keys of `ranks`.
        "min_samples": min(samples_of_ranks),
        "max_samples": max(samples_of_ranks),
        "timeline": timeline,
        "first_batches": first_batches,
    }
    # Each key is taken from the first of these that has it.
    return Strategy.of(composed, counts, counts.sample_coverage, row.on_device, row)
