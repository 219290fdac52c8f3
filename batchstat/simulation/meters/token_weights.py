"""Trained tokens of an epoch's steps, and how much each of them weighs in its gradient."""

import numpy as np

from batchstat.documents.trained import Amounts, ClassWeight, TokenWeights, TrainedCounts
from batchstat.lengths.arrays import Floats, Ints, offsets_from_sizes
from batchstat.lengths.exact import sums_at, total
from batchstat.planning.classes import Classes
from batchstat.planning.rank_batches import RankBatches
from batchstat.planning.samples import Samples
from batchstat.planning.strategies.spec import RowRequest

EXACT = ("num-items-in-batch", "token-sum", "trl")
"""Losses under which every trained token of a step weighs the same."""

UNKNOWN = "unknown"
"""Name of a loss that a recorded run does not reveal: it gives no weights."""

TENTHS = 10
"""The shortest and the longest of so many equal parts of the samples are compared."""


def measure_trained(batches: RankBatches, request: RowRequest, samples: Samples) -> TrainedCounts:
    """Count the trained tokens of batches, and measure how much each weighs in the gradient of its
    step under the loss of the settings.

    Args:
        batches: the batches of all ranks.
        request: the strategy and the settings that they are planned with.
        samples: the corpus.
    """
    trained = batches.loss_tokens
    trained_in_batch = _sum_groups(trained, batches.entry_offsets)
    # A dummy batch has no entries, and no loss to be undefined.
    has_entries = np.diff(batches.entry_offsets) > 0
    trained_in_sample = trained
    # The parts of a split sample are one sample: any of them may have the trained tokens.
    if batches.starts is not None:
        _, sample = np.unique(batches.records, return_inverse=True)
        trained_in_sample = np.bincount(sample, weights=trained)
    weights = None
    # `token_weights` returns the weight of each group, and the group of each entry.
    if trained.any() and request.settings.loss != UNKNOWN:
        weights = _summary(batches, samples, *token_weights(batches, request))
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
    """Return the weight of each trained token, by groups of entries in which all weigh the same: a
    batch, or a row where the loss is a mean over rows.

    A step has T trained tokens, and a batch has t of them. If the loss is a mean over the batch,
    divided by the A batches of the step and averaged over W ranks, each token of the batch weighs
    T / (W A t). Under a sum over the step that is divided by T, each would weigh 1.

    Returns:
        (n_groups,) the weight of the tokens of each group, 0 where it has none, and (n_entries,)
        the group of each entry.
    """
    loss, settings = request.settings.loss, request.settings
    if loss in EXACT:
        # All entries are one group.
        return np.ones(1), np.zeros(len(batches.lengths), dtype=np.int64)
    divided_by: Ints | int = settings.gradient_accumulation_steps
    # axolotl divides by the batches that a step really has; the last step of an epoch may have
    # fewer. With `varies_steps`, steps have different numbers of batches anyway.
    # Indexed by the step and the rank of every batch, the table gives a number for each batch.
    if loss == "axolotl" or request.strategy.varies_steps:
        divided_by = np.maximum(batches.step_totals.batches[batches.steps, batches.ranks], 1)
    offsets = batches.entry_offsets
    trained = _sum_groups(batches.loss_tokens, offsets)
    # transformers with average_tokens_across_devices=False divides by the trained tokens that its
    # own rank has in the step, over all batches: that takes the place of A t.
    if loss == "num-items-per-rank":
        divided_by, trained = 1, _trained_by_rank(batches)[batches.steps, batches.ranks]
    # T / (W A), for each batch.
    numerators = batches.step_totals.tokens[batches.steps] / (batches.world_size * divided_by)
    # The loss of a batch is the mean over its rows of the mean over the tokens of each row: a row
    # is a group, and divides by the rows of its batch and its own trained tokens.
    if loss == "sequence-mean":
        rows, offsets = np.diff(batches.batch_offsets), batches.row_offsets
        trained = _sum_groups(batches.loss_tokens, offsets)
        numerators = np.repeat(numerators / np.maximum(rows, 1), rows)
    # Divided by t, the trained tokens of the group.
    weights = np.divide(numerators, trained, out=np.zeros(len(trained)), where=trained > 0)
    return weights, np.repeat(np.arange(len(trained)), np.diff(offsets))


def _trained_by_rank(batches: RankBatches) -> Ints:
    """Return (n_steps, world_size) trained tokens of each rank in each step."""
    trained_in_batch = _sum_groups(batches.loss_tokens, batches.entry_offsets)
    # The cell of each batch in a table of steps × ranks, row after row.
    cells = batches.steps * batches.world_size + batches.ranks
    trained = sums_at(cells, trained_in_batch, batches.step_totals.batches.size)
    return trained.reshape(batches.step_totals.batches.shape)


def _sum_groups(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of numbers[offsets[i] : offsets[i + 1]]; 0 for an empty group."""
    # The running sum, from 0, at each offset; a group is the difference of two. `reduceat` gives no
    # 0 for an empty group.
    return np.diff(offsets_from_sizes(numbers)[offsets])


def _summary(batches: RankBatches, samples: Samples, weights: Floats, group: Ints) -> TokenWeights:
    """Sum up the weights of trained tokens: percentiles, and the means of the shortest and longest
    samples and of each class. A weight of 1 is that under a loss summed over the step.

    Args:
        batches: the batches of all ranks.
        samples: the corpus.
        weights: (n_groups,) weight of the trained tokens of each group of entries in which all
            weigh the same: see `token_weights`.
        group: (n_entries,) group of each entry.
    """
    trained, lengths = batches.loss_tokens, batches.lengths
    entry_weights = weights[group]
    tokens_of_group = np.bincount(group, weights=trained, minlength=len(weights))
    # From the lightest group to the heaviest, and how many tokens there are up to each.
    order = np.argsort(weights, kind="stable")
    tokens_up_to = np.cumsum(tokens_of_group[order])

    def percentile(percent: int) -> float:
        """Return the smallest weight that this share of the tokens, rounded up, do not exceed."""
        rank = -(-tokens_up_to[-1] * percent // 100)
        return float(weights[order[np.searchsorted(tokens_up_to, rank)]])

    def mean(entries: Ints) -> float | None:
        """Return the mean weight of the trained tokens of entries; None if they have none."""
        tokens = trained[entries].sum()
        return float((entry_weights[entries] * trained[entries]).sum() / tokens) if tokens else None

    tenth = -(-len(lengths) // TENTHS)  # rounded up
    # Puts two lengths where sorting would: the longest of the shortest tenth, and the shortest of
    # the longest tenth.
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
    """Return the mean weight of the trained tokens of each class; last, of samples without a class,
    if there are any.

    Args:
        classes: the class of each sample of the corpus.
        sample: (n_entries,) the sample of each entry.
        weights: (n_entries,) weight of its trained tokens.
        trained: (n_entries,) its trained tokens.
    """
    code = classes.codes[sample]
    # −1, no class, becomes one more class after all others.
    code = np.where(code < 0, len(classes.names), code)
    n_codes = len(classes.names) + 1
    tokens = np.bincount(code, weights=trained, minlength=n_codes)
    weighted = np.bincount(code, weights=trained * weights, minlength=n_codes)
    # Without a sample that has no class, the last code has no name: `zip` leaves it out.
    names = [*classes.names, *([None] if (code == len(classes.names)).any() else [])]
    return tuple(
        ClassWeight(label=name, weight=float(weight / count) if count else None)
        for name, weight, count in zip(names, weighted, tokens, strict=False)
    )
