"""`TrainedColumn`: what a column says of the tokens that carry loss, whatever its form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import as_integers, decoded, decoded_type, is_list, kind_of
from batchstat.corpus.chunk_content import ChunkContent
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges

NOT_TRAINED = -100  # label of a token without loss: `ignore_index` of torch's cross entropy

_EXPECTED = "a mask, labels, or a number of trained tokens"


@dataclass(frozen=True, eq=False)
class TrainedColumn:
    """The trained tokens of n samples, as lists with a value for each token or as numbers say."""

    numbers: Ints
    tokens: TokenRanges | None  # the trained tokens that the lists mark

    def select(self, samples: Ints) -> "TrainedColumn":
        """Return the values of the samples at these positions."""
        tokens = None if self.tokens is None else self.tokens.take(samples)
        return TrainedColumn(self.numbers[samples], tokens)

    def misfits(self, lengths: Ints) -> dict[int, str]:
        """Return the samples that the column does not fit, by their index, with a message each."""
        # A number of trained tokens may be at most the length; a list has a value for each token.
        if self.tokens is None:
            is_misfit, message = self.numbers > lengths, "{:,} trained tokens in a sample of {:,}"
        else:
            is_misfit, message = self.numbers != lengths, "{:,} values for a sample of {:,} tokens"
        indices = np.flatnonzero(is_misfit).tolist()
        return {i: message.format(int(self.numbers[i]), int(lengths[i])) for i in indices}

    def ranges(self, lengths: Ints) -> TokenRanges:
        """Return which tokens are trained: the last of a sample if only their number is known."""
        return TokenRanges.of_last(lengths, self.numbers) if self.tokens is None else self.tokens


def read_trained(content: ChunkContent, column: str) -> TrainedColumn:
    """Read which tokens carry loss: numbers of them, or lists with a value for each token. A list
    of 0 and 1 is a mask; any other has labels, -100 without loss. Raises InputError.
    """
    values = content.values(column)
    if isinstance(values, pa.Array) and is_list(values.type):
        numbers, sizes = _flatten_arrow_lists(content, values, column)
    elif not isinstance(values, pa.Array) and any(isinstance(value, list) for value in values):
        numbers, sizes = _flatten_json_lists(content, values, column)
    else:  # numbers of trained tokens
        return TrainedColumn(content.whole_numbers(column), None)
    offsets = offsets_from_sizes(sizes)
    mask = _mask_of_trained(content, numbers, offsets, column)
    return TrainedColumn(sizes, TokenRanges.of_mask(mask, offsets))


def _flatten_arrow_lists(content: ChunkContent, lists: pa.Array, column: str) -> tuple[Ints, Ints]:
    """Return (n_values,) the values of all lists end to end, and (n,) how many each list has."""
    dtype = decoded_type(lists.type.value_type)
    # Lists that are all empty may have values of the type null.
    if not (pa.types.is_integer(dtype) or pa.types.is_boolean(dtype) or pa.types.is_null(dtype)):
        raise content.wrong_type(column, lists, f"{_EXPECTED} is expected")
    content.reject_nulls(lists, column, _EXPECTED)
    return (
        as_integers(decoded(pc.list_flatten(lists)), null_as=0),
        as_integers(pc.list_value_length(lists), null_as=0),
    )


def _flatten_json_lists(content: ChunkContent, values: list[Any], column: str) -> tuple[Ints, Ints]:
    """Return (n_values,) the values of all lists end to end, and (n,) how many each list has."""
    # The lists are as parsed from JSON. A record with another value is bad, and has an empty list.
    lists = [np.zeros(0, dtype=np.int64)] * len(values)
    for i, value in enumerate(values):
        if not isinstance(value, list):
            content.reject(i, f"{column!r} is {kind_of(value)} where a list is expected")
        elif not set(map(type, value)) <= {int, bool}:
            wrong = next(element for element in value if type(element) not in (int, bool))
            message = f"{column!r} contains {kind_of(wrong)} where a whole number is expected"
            content.reject(i, message)
        else:
            try:
                lists[i] = np.array(value, dtype=np.int64)
            except OverflowError:
                content.reject(i, f"{column!r} contains a number of more than 64 bits")
    return np.concatenate(lists), np.array(list(map(len, lists)), dtype=np.int64)


def _mask_of_trained(content: ChunkContent, numbers: Ints, offsets: Ints, column: str) -> Any:
    """Decide which tokens carry loss from the values of their lists, laid end to end."""
    # Of labels, a negative one other than -100 makes the record bad.
    for position in np.flatnonzero((numbers < 0) & (numbers != NOT_TRAINED)).tolist():
        # The list that holds this position: the last one that begins at or before it.
        i = int(np.searchsorted(offsets, position, side="right")) - 1
        content.reject(i, f"{column!r} contains {numbers[position]}: labels are token ids or -100")
    # How many values that are neither 0 nor 1 precede each value, and all of them at the end.
    others_before = offsets_from_sizes((numbers != 0) & (numbers != 1))
    # (n,) whether a list has as many before its end as before its begin: none of its own.
    is_mask = others_before[offsets[1:]] == others_before[offsets[:-1]]
    # Repeated for each value of a list.
    is_in_mask = np.repeat(is_mask, np.diff(offsets))
    return np.where(is_in_mask, numbers == 1, numbers != NOT_TRAINED)
