"""`TrainedColumn`: what a column says of the tokens that carry loss, whatever its form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import decoded, decoded_type, filled, is_list, kind_of
from batchstat.corpus.chunk_content import ChunkContent
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges

NOT_TRAINED = -100
"""Label of a token without loss: `ignore_index` of torch's cross entropy."""

_EXPECTED = "a mask, labels, or a number of trained tokens"


@dataclass(frozen=True, eq=False)
class TrainedColumn:
    """The trained tokens of n samples, as far as their column says.

    Attributes:
        numbers: (n,) values in each list; in a column of numbers, the trained tokens of each.
        tokens: the trained tokens by the lists; None for a column of numbers.
    """

    numbers: Ints
    tokens: TokenRanges | None

    def select(self, samples: Ints) -> "TrainedColumn":
        """Return those of these samples."""
        tokens = None if self.tokens is None else self.tokens.take(samples)
        return TrainedColumn(self.numbers[samples], tokens)

    def misfits(self, lengths: Ints) -> dict[int, str]:
        """Return what is wrong for samples of these lengths (n,), by sample."""
        if self.tokens is None:
            wrong, message = self.numbers > lengths, "{:,} trained tokens in a sample of {:,}"
        else:
            wrong, message = self.numbers != lengths, "{:,} values for a sample of {:,} tokens"
        places = np.flatnonzero(wrong).tolist()
        return {i: message.format(int(self.numbers[i]), int(lengths[i])) for i in places}

    def ranges(self, lengths: Ints) -> TokenRanges:
        """Return the trained tokens of samples of these lengths (n,), without misfits.

        Of a column of numbers, they are the last tokens of each sample.
        """
        return TokenRanges.of_last(lengths, self.numbers) if self.tokens is None else self.tokens


def read_trained(content: ChunkContent, column: str) -> TrainedColumn:
    """Return the column of a chunk.

    Lists of 0 and 1, or of booleans, are masks: 1 carries loss. Other lists are labels: what is not
    -100 carries loss.

    Raises:
        InputError: a column of another type.
    """
    values = content.values(column)
    if isinstance(values, pa.Array) and is_list(values.type):
        numbers, sizes = _values_of_arrow(content, values, column)
    elif not isinstance(values, pa.Array) and any(isinstance(value, list) for value in values):
        numbers, sizes = _values_of_python(content, values, column)
    else:
        return TrainedColumn(content.lengths(column), None)
    offsets = offsets_from_sizes(sizes)
    mask = _carries_loss(content, numbers, offsets, column)
    return TrainedColumn(sizes, TokenRanges.of_mask(mask, offsets))


def _values_of_arrow(content: ChunkContent, values: pa.Array, column: str) -> tuple[Ints, Ints]:
    """Return the values of all lists, and how many each has."""
    kind = decoded_type(values.type.value_type)
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise InputError(
            f"{content.locate(0)}: column {column!r} is {values.type} where {_EXPECTED} is expected"
        )
    content.fail_nulls(values, column, _EXPECTED)
    return (
        filled(decoded(pc.list_flatten(values)), 0),
        filled(pc.list_value_length(values), 0).astype(np.int64, copy=False),
    )


def _values_of_python(content: ChunkContent, values: list[Any], column: str) -> tuple[Ints, Ints]:
    """Do the same for values as parsed from JSON."""
    lists = [np.zeros(0, dtype=np.int64)] * len(values)
    for i, value in enumerate(values):
        if not isinstance(value, list):
            content.fail(i, f"{column!r} is {kind_of(value)} where a list is expected")
        elif odd := set(map(type, value)) - {int, bool}:
            found = kind_of(next(each for each in value if type(each) in odd))
            content.fail(i, f"{column!r} contains {found} where a whole number is expected")
        else:
            try:
                lists[i] = np.array(value, dtype=np.int64)
            except OverflowError:
                content.fail(i, f"{column!r} contains a number of more than 64 bits")
    return np.concatenate(lists), np.array([len(each) for each in lists], dtype=np.int64)


def _carries_loss(content: ChunkContent, numbers: Ints, offsets: Ints, column: str) -> Any:
    """Return (n_values,) whether each token carries loss."""
    sizes = np.diff(offsets)
    begins = offsets[:-1][sizes > 0]
    for at in np.flatnonzero((numbers < 0) & (numbers != NOT_TRAINED)).tolist():
        i = int(np.searchsorted(offsets, at, side="right")) - 1
        content.fail(i, f"{column!r} contains {numbers[at]}: labels are token ids or -100")
    is_mask = np.zeros(len(sizes), dtype=bool)
    if len(begins):
        least, most = np.minimum.reduceat(numbers, begins), np.maximum.reduceat(numbers, begins)
        is_mask[sizes > 0] = (least >= 0) & (most <= 1)
    return np.where(np.repeat(is_mask, sizes), numbers == 1, numbers != NOT_TRAINED)
