"""The batches of a data set that is tokenized already, and what of it is padded before batching."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from batchstat.findings import Finding
from batchstat.lengths.arrays import offsets_from_sizes, round_up, sum_groups
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.recording.collators import Collating
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.prepared_rows import PreparedRows


def batches_of_rows(
    rows: PreparedRows, collating: Collating, strategy: StrategySpec, settings: Settings
) -> GivenBatches:
    """Return the batches that a strategy makes of the stored rows of a data set: it plans them by
    their stored width, with padding, as the trainer does; the batches hold their real samples.
    """
    inputs = resolve_inputs(np.maximum(rows.widths, 1))  # a plan has no row without a token
    # The rows are stored: nothing is truncated any more.
    settings = replace(settings, max_length=int(rows.widths.max()))
    request = inputs.request(strategy, settings)
    planned = plan_ranks(make_shares(inputs.samples, request.settings), request)
    # The plan takes each stored row for one sample: the numbers of rows in the sequence of batches.
    row_numbers = planned.records
    # (n_entries,) the samples of these rows, one after the other.
    places = np.concatenate(
        [np.arange(*rows.row_offsets[number : number + 2]) for number in row_numbers.tolist()]
    )
    # (n_rows + 1,) planned row i holds places[row_offsets[i] : row_offsets[i + 1]].
    row_offsets = offsets_from_sizes(np.diff(rows.row_offsets)[row_numbers])
    batch_offsets, widths = planned.batch_offsets, planned.widths
    multiple = request.strategy.pad_to_multiple_of
    # The collator joins the rows of a batch into one, which begins where the first does.
    if collating.end_to_end:
        row_offsets = row_offsets[batch_offsets]
        widths = round_up(sum_groups(rows.widths[row_numbers], batch_offsets), multiple)
        batch_offsets = np.arange(len(widths) + 1)
    elif collating.width is not None:  # padding="max_length"
        widths = np.maximum(widths, round_up(collating.width, multiple))
    # The planned batches of each rank, in a column of its own; −1 where it has fewer than others.
    batches_of_ranks = [np.flatnonzero(planned.ranks == rank) for rank in range(planned.world_size)]
    turns = np.full((max(map(len, batches_of_ranks)), planned.world_size), -1)
    for rank, batches_of_rank in enumerate(batches_of_ranks):
        turns[: len(batches_of_rank), rank] = batches_of_rank
    return GivenBatches(
        places=places,
        row_offsets=row_offsets,
        batch_offsets=batch_offsets,
        widths=widths,
        turns=turns,
        # A collator that joins rows gives the model positions, which keep samples apart.
        attends_within_samples=collating.end_to_end,
        # Only where each stored row is one sample would the strategy make these batches again.
        origin=None if rows.is_packed or collating.end_to_end else request,
    )


def padding_before_batching(rows: PreparedRows, collating: Collating) -> tuple[str, str]:
    """Return, in words, what is padded too far and how to remove that; empty where nothing is."""
    if rows.constant_width is not None:
        return (
            f"every row is padded to {rows.constant_width:,} before batching",
            'remove padding="max_length" where you tokenize',
        )
    if rows.padded_tokens:
        # padding=True pads to the longest of the 1,000 rows that `map(batched=True)` passes on.
        return (
            f"rows are padded before batching, with {rows.padded_tokens:,} tokens",
            "remove padding=True where you tokenize, which pads to the longest of a map's batch",
        )
    # The mask calls this padding real, so that it counts as text: `faults_of_padding` says that.
    if rows.ends_in_padding:
        return "", "pad in the collator, not where you tokenize"
    if collating.width is not None:
        return (
            f"every row is padded to {collating.width:,} by the collator",
            'remove padding="max_length" from the collator',
        )
    return "", ""


def faults_of_padding(rows: PreparedRows, collating: Collating) -> Iterator[Finding]:
    """Yield what is wrong with the padding in a data set, or with its collator's."""
    if collating.is_left and rows.is_shifted and rows.trained is not None:
        # The first token is then predicted from the padding before it. How many rows of a batch are
        # padded depends on the batch, so that these tokens are not counted.
        yield Finding(
            "trained/first-token",
            "the tokenizer pads on the left: the first token of a row that a collator pads carries "
            "loss too, and is not counted as trained here; set padding_side='right' for training",
        )
    if rows.trained_padding:
        yield trained_padding(rows.trained_padding)
    if rows.ends_in_padding:
        yield Finding(
            "padding/called-real",
            f"{rows.ends_in_padding:,} of {len(rows.widths):,} rows end in several padding tokens "
            "that the attention mask calls real: they are computed, and counted as text here",
        )


def trained_padding(tokens: int) -> Finding:
    """Return the finding about tokens of padding that carry loss."""
    return Finding(
        "trained/padding", f"{tokens:,} tokens of padding carry loss: set their labels to -100"
    )
