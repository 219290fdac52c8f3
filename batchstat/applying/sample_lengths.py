"""The lengths of the samples of a loader, by their numbers, as a dry run reads them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from .cutting import UnknownError, arrays_by_place, row_lengths
from .step_state import largest_of_ranks

UNKNOWN = -1  # instead of a length
_MOST_UNKNOWN = 1 / 3  # of the samples: above it no step is regrouped
_FETCHED_AT_ONCE, _MOST_SECONDS = 8, 20  # of the samples that a dry run has not read


class SampleLengths:
    """Notes the rows of batches with their sample numbers."""

    def __init__(self) -> None:
        self.why_not = ""  # why the lengths are not known; empty as long as they may be
        self.numbers: list[Sequence[int]] = []  # of each batch
        # For each set of token ids: what may tell where padding begins -> lengths of each batch.
        self._lengths: list[dict[Any, list[list[int]]]] = []

    def note(
        self, numbers: Sequence[int] | None, arrays: Mapping[Any, Any], ends: Sequence[Any]
    ) -> None:
        """Note a batch. `ends` are for each set of token ids, as `Learner` finds them."""
        if self.why_not or not ends:
            return
        if numbers is None or not all(isinstance(each, int) for each in numbers):
            self.why_not = "its loader has no sample numbers"
            return
        if not self._lengths:
            self._lengths = [{end: [] for end in each} for each in ends]
        for known, its in zip(self._lengths, ends):
            for end in [end for end in known if end not in its]:
                del known[end]
        found = [(known, end) for known in self._lengths for end in known]
        if any(place not in arrays for _, (place, _) in found):  # a loop took it out of its batch
            return
        for known, end in found:
            known[end].append(row_lengths(arrays[end[0]], end[1]))
            if len(known[end][-1]) != len(numbers):
                self.why_not = "the rows of its batches are no samples"
        self.numbers.append(numbers)

    def by_number(self, n_samples: int) -> tuple[list[Any], Any]:
        """Return (what tells where padding begins, for each set of token ids; and (n_sets,
        n_samples) lengths, as all ranks together know them), `UNKNOWN` where none does. All ranks
        call it. Raises UnknownError.
        """
        numpy, why_not = sys.modules.get("numpy"), self.why_not
        if numpy is None:
            why_not = "NumPy is not there, which plans steps"
        # A mask first, as a cut does.
        ends = [
            min(known, key=lambda end: "mask" not in str(end[0][-1:]).lower())
            for known in self._lengths
            if known
        ]
        if not why_not and (not ends or len(ends) < len(self._lengths)):
            why_not = "no array of its batches tells how long samples are"
        if largest_of_ranks([bool(why_not)])[0]:
            raise UnknownError(why_not or "another rank does not know the lengths of its samples")
        assert numpy is not None
        found = numpy.full((len(ends), n_samples), UNKNOWN, dtype=numpy.int32)
        numbers = numpy.fromiter(chain.from_iterable(self.numbers), dtype=numpy.int64)
        for row, end, known in zip(found, ends, self._lengths):
            own = numpy.fromiter(chain.from_iterable(known[end]), dtype=numpy.int32)
            row[numbers] = own
            if (row[numbers] != own).any():
                why_not = "one sample came with several lengths: its collator or data set draws"
        if largest_of_ranks([bool(why_not)])[0]:
            raise UnknownError(why_not or "on another rank one sample came with several lengths")
        found = largest_of_ranks(found.ravel()).reshape(found.shape)
        return ends, found


def fill_up(
    lengths: Any, ends: Sequence[Any], fetch: Callable[[Any], Any], ranks: tuple[int, int]
) -> Any:
    """Return lengths with those of samples that were not read, which each rank fetches a share of:
    as many as it can within some seconds. A resumed epoch skips samples, and `drop_last` some. All
    ranks call it. Raises UnknownError where too many stay unknown.
    """
    import numpy

    rank, world_size = ranks
    found, until = lengths.copy(), time.monotonic() + _MOST_SECONDS
    missing = numpy.flatnonzero(lengths[0] == UNKNOWN)[rank::world_size]
    with contextlib.suppress(Exception):  # a data set may not have all that it says it has
        for first in range(0, len(missing), _FETCHED_AT_ONCE):
            if time.monotonic() > until:
                break
            numbers = missing[first : first + _FETCHED_AT_ONCE].tolist()
            arrays = dict(arrays_by_place(fetch(numbers)))
            for row, (place, value) in zip(found, ends):
                row[numbers] = row_lengths(arrays[place], value)
    found[:, (found == UNKNOWN).any(0)] = UNKNOWN
    found = largest_of_ranks(found.ravel()).reshape(found.shape)
    unknown, n_samples = int((found[0] == UNKNOWN).sum()), found.shape[1]
    if unknown > n_samples * _MOST_UNKNOWN:
        raise UnknownError("%d of %d samples were not read" % (unknown, n_samples))
    return found
