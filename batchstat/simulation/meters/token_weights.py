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
"""A loss of which no weights are known."""

TENTH = 10


def measure_trained(batches: RankBatches, request: RowRequest, samples: Samples) -> TrainedCounts:
    """Return the trained tokens of batches, and their weights under the loss of the settings.

    Args:
        batches: the batches of all ranks.
        request: the strategy and the settings that they are planned with.
        samples: the corpus.
    """
    trained = batches.loss_tokens
    of_batch = _sums(trained, batches.entry_offsets)
    filled = np.diff(batches.entry_offsets) > 0
    of_sample = trained
    # The parts of a split sample are one sample: any of them may have the trained tokens.
    if batches.starts is not None:
        _, sample = np.unique(batches.records, return_inverse=True)
        of_sample = np.bincount(sample, weights=trained)
    weights = None
    if trained.any() and request.settings.loss != UNKNOWN:
        weights = _weights(batches, samples, *token_weights(batches, request))
    return TrainedCounts(
        tokens=total(trained),
        untrained_samples=int(np.count_nonzero(of_sample == 0)),
        untrained_batches=int(np.count_nonzero(of_batch[filled] == 0)),
        per_step=_amounts(batches.step_totals.tokens),
        per_rank=_amounts(_of_ranks(batches)),
        weights=weights,
    )


def _amounts(numbers: Ints) -> Amounts:
    """Return how the numbers of an array differ, which is not empty."""
    return Amounts(
        mean=total(numbers) / numbers.size,
        std=float(numbers.std(dtype=np.float64)),
        min=int(numbers.min()),
        max=int(numbers.max()),
    )


def token_weights(batches: RankBatches, request: RowRequest) -> tuple[Floats, Ints]:
    """Return the weights of trained tokens, and which of them each entry's have.

    Tokens of a batch, or of a row where the loss is a mean over rows, weigh the same. With T
    trained tokens in the step and t in the batch, a mean over the batch that is divided by A and
    averaged over W ranks gives each T / (W A t), where a sum divided by T gives 1.

    Returns:
        (n_groups,) the weight of the tokens of each group, 0 where it has none, and (n_entries,)
        the group of each entry.
    """
    loss, settings = request.settings.loss, request.settings
    if loss in EXACT:
        return np.ones(1), np.zeros(len(batches.lengths), dtype=np.int64)
    divided_by: Ints | int = settings.gradient_accumulation_steps
    # axolotl divides by the batches that a step really has; the last one of an epoch may have
    # fewer.
    if loss == "axolotl" or request.strategy.varies_steps:
        divided_by = np.maximum(batches.step_totals.batches[batches.steps, batches.ranks], 1)
    offsets = batches.entry_offsets
    trained = _sums(batches.loss_tokens, offsets)
    # transformers with average_tokens_across_devices=False counts the tokens of its own rank's
    # step.
    if loss == "num-items-per-rank":
        divided_by, trained = 1, _of_ranks(batches)[batches.steps, batches.ranks]
    of_step = batches.step_totals.tokens[batches.steps] / (batches.world_size * divided_by)
    if loss == "sequence-mean":
        rows, offsets = np.diff(batches.batch_offsets), batches.row_offsets
        trained = _sums(batches.loss_tokens, offsets)
        of_step = np.repeat(of_step / np.maximum(rows, 1), rows)
    weights = np.divide(of_step, trained, out=np.zeros(len(trained)), where=trained > 0)
    return weights, np.repeat(np.arange(len(trained)), np.diff(offsets))


def _of_ranks(batches: RankBatches) -> Ints:
    """Return (n_steps, world_size) trained tokens of each rank in each step."""
    of_batch = _sums(batches.loss_tokens, batches.entry_offsets)
    places = batches.steps * batches.world_size + batches.ranks
    found = sums_at(places, of_batch, batches.step_totals.batches.size)
    return found.reshape(batches.step_totals.batches.shape)


def _sums(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n_groups,) the sum of each group, which may be empty."""
    return np.diff(offsets_from_sizes(numbers)[offsets])


def _weights(batches: RankBatches, samples: Samples, weights: Floats, group: Ints) -> TokenWeights:
    trained, lengths = batches.loss_tokens, batches.lengths
    of_entry = weights[group]
    tokens_of_group = np.bincount(group, weights=trained, minlength=len(weights))
    order = np.argsort(weights, kind="stable")
    ends = np.cumsum(tokens_of_group[order])

    def percentile(percent: int) -> float:
        rank = -(-ends[-1] * percent // 100)
        return float(weights[order[np.searchsorted(ends, rank)]])

    def mean(entries: Ints) -> float | None:
        tokens = trained[entries].sum()
        return float((of_entry[entries] * trained[entries]).sum() / tokens) if tokens else None

    tenth = -(-len(lengths) // TENTH)
    ranked = np.partition(lengths, (tenth - 1, len(lengths) - tenth))
    return TokenWeights(
        p5=percentile(5),
        p95=percentile(95),
        shortest_tenth=mean(np.flatnonzero(lengths <= ranked[tenth - 1])),
        longest_tenth=mean(np.flatnonzero(lengths >= ranked[-tenth])),
        classes=None
        if samples.classes is None
        else _by_class(samples.classes, samples.places(batches.records), of_entry, trained),
    )


def _by_class(
    classes: Classes, places: Ints, weights: Floats, trained: Ints
) -> tuple[ClassWeight, ...]:
    code = classes.codes[places]
    code = np.where(code < 0, len(classes.names), code)
    size = len(classes.names) + 1
    tokens = np.bincount(code, weights=trained, minlength=size)
    sums = np.bincount(code, weights=trained * weights, minlength=size)
    names = [*classes.names, *([None] if (code == len(classes.names)).any() else [])]
    return tuple(
        ClassWeight(name, float(weighed / count) if count else None)
        for name, weighed, count in zip(names, sums, tokens, strict=False)
    )
