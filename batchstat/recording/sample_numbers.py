"""Batches of sample numbers, from a sampler or lists of lists, as a strategy."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.planning.rank_plans import side_by_side
from batchstat.planning.samples import Samples
from batchstat.recording.given_batches import GivenBatches
from batchstat.words import short

_MOST_PASSES = 1000  # how often all samples may come before batches are taken to never end


def given_batches(
    name: str,
    batches: Iterable[Any] | None,
    samples: Samples,
    *,
    per_rank: Sequence[Iterable[Any]] | None = None,
    batch_size: int | None = None,
    limit: int | None = None,
    pad_to_multiple_of: int = 1,
) -> GivenBatches:
    """Return batches of sample numbers as a strategy. Raises OptionError: neither batches nor those
    of each rank, or both; InputError: none, an empty one, other than sample numbers, no end.
    """
    if (batches is None) == (per_rank is None):
        raise OptionError(name, "pass batches, or per_rank with those of each rank")
    most_samples = _MOST_PASSES * max(len(samples), 1)
    ranks = [batches] if per_rank is None else per_rank
    listed = [_listed(name, each, batch_size, limit, most_samples) for each in ranks]
    all_batches = list(chain.from_iterable(listed))
    if not all_batches:
        raise InputError(f"{name}: there is no batch")
    records, row_offsets, batch_offsets = _flattened(name, all_batches)
    # Batches of ranks follow each other in `all_batches`: `turns` says which are computed together.
    return GivenBatches(
        places=_places(name, records, samples),
        row_offsets=row_offsets,
        batch_offsets=batch_offsets,
        turns=None if per_rank is None else side_by_side(list(map(len, listed))),
        pad_to_multiple_of=pad_to_multiple_of,
    )


def _listed(
    name: str, batches: Any, batch_size: int | None, limit: int | None, most_samples: int
) -> list[Any]:
    """Return the batches of a batch sampler in a list, or the numbers of a sampler in batches."""
    try:
        values = map(_as_list, iter(batches))
    except TypeError:
        raise InputError(
            f"{name}={short(batches)}",
            "must be batches of sample numbers, such as a batch_sampler or a list of lists",
        ) from None
    first = list(islice(values, 1))  # [] if there is none
    all_batches: Iterator[Any] = chain(first, values)
    # By the first value: whether these are batches, or single numbers that are put into batches.
    if first and not isinstance(first[0], list):
        if batch_size is None:
            raise InputError(
                f"{name}: yields single numbers, such as {short(first[0])}",
                "pass batch_size for batches of them",
            )
        numbers = all_batches
        # Takes `batch_size` numbers at a time, until it takes none ([]).
        all_batches = iter(lambda: list(islice(numbers, batch_size)), [])
    listed, samples = [], 0
    for batch in islice(all_batches, limit):
        # Something else than a list is refused by `_flattened`, which names its place.
        samples += len(batch) if isinstance(batch, list) else 1
        if samples > most_samples:
            raise InputError(
                f"{name}: has no end after {samples:,} samples",
                "pass steps=N for the first N steps",
            )
        listed.append(batch)
    return listed


def _as_list(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple | set | range) else value


def _flattened(name: str, batches: list[Any]) -> tuple[Ints, Ints, Ints]:
    """Return the batches of sample numbers as flat arrays."""
    for number, batch in enumerate(batches):
        if not isinstance(batch, list) or not batch:
            fault = "is empty" if isinstance(batch, list) else f"is {short(batch)}, not a list"
            raise InputError(f"{name}: batch {number} {fault}")
    batch_offsets = offsets_from_sizes(np.fromiter(map(len, batches), np.int64, len(batches)))
    # One sample in each row, unless a batch is a list of packed rows.
    entries: list[Any] = list(chain.from_iterable(batches))
    row_offsets: Ints = np.arange(len(entries) + 1)
    if isinstance(entries[0], list | tuple) or hasattr(entries[0], "tolist"):
        rows = [_as_list(row) for row in entries]
        if not all(isinstance(row, list) and row for row in rows):
            raise InputError(f"{name}: some rows are sequences of sample numbers, others are not")
        row_offsets = offsets_from_sizes(np.fromiter(map(len, rows), np.int64, len(rows)))
        entries = list(chain.from_iterable(rows))
    try:
        numbers = np.asarray(entries)
    except ValueError:  # lists of several lengths among the numbers
        numbers = np.empty(0)  # of floats, which are refused below
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        # All are ints where they are True and False, or one is too large for an array.
        wrong_entry = next((each for each in entries if not isinstance(each, int)), entries[0])
        raise InputError(f"{name}: {short(wrong_entry)} is not a sample number")
    return numbers.astype(np.int64), row_offsets, batch_offsets


def _places(name: str, records: Ints, samples: Samples) -> Ints:
    """Return (n,) the place of each record number among the samples of the corpus."""
    samples.check_indexed()
    known_records = samples.records
    # A number that no sample has gets the place of another sample, or one behind the last.
    places = samples.indices_of(records)
    missing = (records < 0) | (places >= len(known_records))
    # Of the others, the sample at the place may have another number.
    missing[~missing] = known_records[places[~missing]] != records[~missing]
    if missing.any():
        number = int(records[np.argmax(missing)])
        skips = "" if samples.is_contiguous else " with gaps: take the numbers from profile.records"
        raise InputError(
            f"{name}: has sample {number:,}, but there are {len(samples):,} samples, numbered "
            f"{int(known_records.min()):,} to {int(known_records.max()):,}{skips}"
        )
    return places
