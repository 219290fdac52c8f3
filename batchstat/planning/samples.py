"""`Samples`: the part of a corpus that an epoch is drawn from."""

import os
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.max_length import Lost
from batchstat.lengths.sample_rows import SampleRows
from batchstat.lengths.stats import LengthStats
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.parameters import MAX_INT
from batchstat.planning.classes import Classes

_BYTES = 192  # memory per sample of an epoch: some two dozen numbers while it is planned


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a corpus, in its order or in the sequence of a trainer."""

    lengths: Ints  # (n,) tokens of each, before `max_length`
    records: Ints  # (n,) record number of each in its corpus, each one once
    classes: Classes | None = None  # the class of each; None if there are no labels
    known: LengthStats | None = None  # statistics of the lengths, if already known
    trained: TokenRanges | None = None  # the tokens of each that carry loss; None if unknown
    lost: Lost = field(default_factory=Lost)  # what of the corpus is lost: see `Profile.lost`
    is_indexed: bool = False  # whether the records index a data set, which a sampler can draw from
    rows: SampleRows | None = None  # rows of each, if several: its length is that of the longest

    @cached_property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return self.known or LengthStats.of(self.lengths)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether no record is skipped, so that a sample's number is its record's."""
        # Ascending numbers from 0 that end with n − 1 are all there.
        ends_at_count = len(self.records) == 0 or int(self.records[-1]) == len(self.records) - 1
        return ends_at_count and self._is_ascending

    @cached_property
    def _is_ascending(self) -> bool:
        return bool((self.records[1:] > self.records[:-1]).all())

    @cached_property
    def _by_record(self) -> Ints:
        return np.argsort(self.records)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.lengths)

    def check_indexed(self, name: str = "these samples") -> None:
        """Raise InputError if the records index no data set."""
        if not self.is_indexed:
            raise InputError(
                f"{name} are numbered as they were read, and index no data set",
                "profile its corpus, or pass the lengths of its samples in their sequence",
            )

    def trained_tokens(
        self,
        records: Ints,
        starts: Ints | None,
        lengths: Ints,
        is_predicted: npt.NDArray[np.bool_] | None = None,
    ) -> Ints | None:
        """Return (n,) how many tokens of each sample carry loss, or of parts of `lengths` tokens
        from `starts` on; None if that is unknown. The first token of each carries none, unless the
        sample before it in its row predicts it (`is_predicted`).
        """
        if self.trained is None:
            return None
        indices = self.indices_of(records)
        if starts is not None or is_predicted is not None:
            begins = np.zeros_like(lengths) if starts is None else starts
            # Count from the second token on; from the first one where it is predicted.
            first_counted = begins + (1 if is_predicted is None else ~is_predicted)
            return self.trained.take(indices).counts(first_counted, begins + lengths)
        # Samples that are not split are whole, or truncated to the longest of these lengths. So the
        # whole corpus is counted once within that limit, and every epoch looks its samples up.
        is_cut = bool((lengths < self.lengths.take(indices)).any())
        limit = int(lengths.max()) if is_cut else MAX_INT
        if limit not in self._trained_within:
            self._trained_within[limit] = self.trained.counts(1, limit)
        return self._trained_within[limit].take(indices)

    def rows_of(self, records: Ints, lengths: Ints) -> Ints:
        """Return (n, k) the tokens of the rows of samples whose longest have `lengths` (n,)."""
        if self.rows is None:
            return lengths[:, None]
        return np.minimum(self.rows.lengths[self.indices_of(records)], lengths[:, None])

    @cached_property
    def _trained_within(self) -> dict[int, Ints]:
        return {}

    def indices_of(self, records: Ints) -> Ints:
        """Return (n,) the index of each record: among records 0, 2 and 5, 5 has the index 2."""
        if self.is_contiguous:
            return records
        if self._is_ascending:
            return np.searchsorted(self.records, records)
        # Records in any order: search them sorted, and return to the index of the sample.
        return self._by_record[np.searchsorted(self.records, records, sorter=self._by_record)]


def check_room(what: str, samples: int, remedy: str) -> None:
    """Raise InputError if the samples of an epoch do not fit into this machine's memory."""
    memory = _memory()
    if memory is not None and samples * _BYTES > memory:
        raise InputError(
            f"{what} {samples:,} samples per epoch, but at most {memory // _BYTES:,} fit into this "
            f"machine's {memory >> 20:,} MB of memory",
            remedy,
        )


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
