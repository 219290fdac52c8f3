"""Trained tokens of an epoch's steps, and how much each of them weighs in its gradient."""

import numpy as np

from batchstat.documents.trained import Amounts, ClassWeight, TokenWeights, TrainedCounts
from batchstat.lengths.arrays import Floats, Ints, sum_groups
from batchstat.lengths.exact import sums_at, total
from batchstat.planning.classes import Classes
from batchstat.planning.rank_batches import RankBatches
from batchstat.planning.samples import Samples
from batchstat.planning.strategies.spec import RowRequest

EXACT = ("num-items-in-batch", "token-sum", "trl")  # losses under which all tokens weigh the same
UNKNOWN = "unknown"  # name of a loss that a recorded run does not reveal: it gives no weights
TENTHS = 10  # the shortest and the longest of so many equal parts of the samples are compared


def measure_trained(batches: RankBatches, request: RowRequest, samples: Samples) -> TrainedCounts:
    """Count trained tokens, and how much each weighs in its step's gradient under the loss."""
    trained = batches.loss_tokens  # (n_entries,)
    trained_in_batch = sum_groups(trained, batches.entry_offsets)
    # A dummy batch has no entries, and no loss to be undefined.
    has_entries = np.diff(batches.entry_offsets) > 0
    trained_in_sample = trained
    # The parts of a split sample are one sample: any of them may have the trained tokens.
    if batches.starts is not None:
        _, sample_of_entry = np.unique(batches.records, return_inverse=True)
        trained_in_sample = np.bincount(sample_of_entry, weights=trained)
    weights = None
    if trained.any() and request.settings.loss != UNKNOWN:
        group_weights, groups = token_weights(batches, request)
        weights = _sum_up(batches, samples, group_weights, groups)
    return TrainedCounts(
        tokens=total(trained),
        untrained_samples=int(np.count_nonzero(trained_in_sample == 0)),
        untrained_batches=int(np.count_nonzero(trained_in_batch[has_entries] == 0)),
        per_step=_amounts(batches.step_totals.tokens),
        per_rank=_amounts(_trained_by_rank(batches)),
        weights=weights,
    )


def _amounts(numbers: Ints) -> Amounts:
    """Return the mean, spread and extremes of at least one number."""
    return Amounts(
        mean=total(numbers) / numbers.size,
        std=float(numbers.std(dtype=np.float64)),
        min=int(numbers.min()),
        max=int(numbers.max()),
    )


def token_weights(batches: RankBatches, request: RowRequest) -> tuple[Floats, Ints]:
    """Return the weight of trained tokens by groups of entries in which all weigh the same:
    (n_groups,) the weights, 0 without tokens, and (n_entries,) the groups. A group is a batch;
    under some losses it is the whole epoch, or a row. A step has T trained tokens, and a batch has
    t of them. If the loss is a mean over the batch, divided by the A batches of the step and
    averaged over W ranks, each token of the batch weighs T / (W A t). Under a sum over the step
    that is divided by T, each would weigh 1.
    """
    loss, settings = request.settings.loss, request.settings
    if loss in EXACT:  # every token weighs 1: all entries are one group
        return np.ones(1), np.zeros(len(batches.lengths), dtype=np.int64)
    # A. axolotl takes the batches that a step really has; the last step of an epoch may have fewer.
    # With `varies_steps`, steps have different numbers of batches anyway. The table has a row for
    # each step and a column for each rank: here it is looked up for each batch, (n_batches,).
    accumulated: Ints | int = settings.gradient_accumulation_steps
    if loss == "axolotl" or request.strategy.varies_steps:
        accumulated = np.maximum(batches.step_totals.batches[batches.steps, batches.ranks], 1)
    # (n_groups,) t, and the borders of the groups among the entries.
    offsets = batches.entry_offsets
    tokens = sum_groups(batches.loss_tokens, offsets)
    # Without average_tokens_across_devices, a rank's own tokens take the place of A t.
    if loss == "num-items-per-rank":
        accumulated, tokens = 1, _trained_by_rank(batches)[batches.steps, batches.ranks]
    # T / (W A), for each batch.
    numerators = batches.step_totals.tokens[batches.steps] / (batches.world_size * accumulated)
    # The loss of a batch is the mean over its rows of the mean over the tokens of each row: a row
    # is a group, and divides by the rows of its batch and its own trained tokens.
    if loss == "sequence-mean":
        rows, offsets = np.diff(batches.batch_offsets), batches.row_offsets
        tokens = sum_groups(batches.loss_tokens, offsets)
        numerators = np.repeat(numerators / np.maximum(rows, 1), rows)
    # Divided by t; groups without a trained token keep the 0 of `out`.
    weights = np.divide(numerators, tokens, out=np.zeros(len(tokens)), where=tokens > 0)
    return weights, np.repeat(np.arange(len(tokens)), np.diff(offsets))


def _trained_by_rank(batches: RankBatches) -> Ints:
    trained_in_batch = sum_groups(batches.loss_tokens, batches.entry_offsets)
    # The cell of each batch in a table of steps × ranks, row after row.
    cells = batches.steps * batches.world_size + batches.ranks
    trained = sums_at(cells, trained_in_batch, batches.step_totals.batches.size)
    return trained.reshape(batches.step_totals.batches.shape)


def _sum_up(batches: RankBatches, samples: Samples, weights: Floats, groups: Ints) -> TokenWeights:
    """Sum up the weights of trained tokens: percentiles, and the means of the shortest and longest
    samples and of each class. A weight of 1 is that under a loss summed over the step.
    """
    trained, lengths = batches.loss_tokens, batches.lengths
    entry_weights = weights[groups]
    group_tokens = np.bincount(groups, weights=trained, minlength=len(weights))
    # From the lightest group to the heaviest, and how many tokens there are up to each.
    by_weight = np.argsort(weights, kind="stable")
    tokens_up_to = np.cumsum(group_tokens[by_weight])

    def percentile(percent: int) -> float:
        tokens_below = -(-tokens_up_to[-1] * percent // 100)
        return float(weights[by_weight[np.searchsorted(tokens_up_to, tokens_below)]])

    def mean(entries: Ints) -> float | None:
        tokens = trained[entries].sum()
        return float((entry_weights[entries] * trained[entries]).sum() / tokens) if tokens else None

    tenth = -(-len(lengths) // TENTHS)  # rounded up
    # Sorted as far as needed: where the shortest tenth ends, and where the longest begins.
    ranked = np.partition(lengths, (tenth - 1, len(lengths) - tenth))
    return TokenWeights(
        p5=percentile(5),
        p95=percentile(95),
        shortest_tenth=mean(np.flatnonzero(lengths <= ranked[tenth - 1])),
        longest_tenth=mean(np.flatnonzero(lengths >= ranked[-tenth])),
        classes=None
        if samples.classes is None
        else _class_means(
            samples.classes, samples.indices_of(batches.records), entry_weights, trained
        ),
    )


def _class_means(
    classes: Classes, sample: Ints, weights: Floats, trained: Ints
) -> tuple[ClassWeight, ...]:
    """Return the mean weight of trained tokens of each class; last, of no class, if any."""
    codes, n_classes = classes.codes[sample], len(classes.names)
    # −1, no class, becomes one more class after all others.
    codes = np.where(codes < 0, n_classes, codes)
    # (n_classes + 1,) the trained tokens of each class, and the sum of their weights.
    class_tokens = np.bincount(codes, weights=trained, minlength=n_classes + 1)
    class_weights = np.bincount(codes, weights=trained * weights, minlength=n_classes + 1)
    labels = [*classes.names, None] if (codes == n_classes).any() else [*classes.names]
    return tuple(
        ClassWeight(label=label, weight=float(weight / tokens) if tokens else None)
        # `zip` leaves the last class out where no sample is without a class.
        for label, weight, tokens in zip(labels, class_weights, class_tokens, strict=False)
    )
