"""`Samples`: the part of a corpus that an epoch is drawn from."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Ints
from batchstat.lengths.lost import Lost
from batchstat.lengths.stats import LengthStats
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.parameters import MAX_INT
from batchstat.planning.classes import Classes


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of a corpus, in its order or in the sequence of a trainer.

    Attributes:
        lengths: (n,) tokens of each, before `max_length`.
        records: (n,) record number of each in its corpus, each one once.
        classes: the class of each; None if there are no labels.
        known: statistics of the lengths, if already known.
        trained: the tokens of each that carry loss; None if they are unknown.
        lost: what of the corpus these samples are without: see `Profile.lost`.
    """

    lengths: Ints
    records: Ints
    classes: Classes | None = None
    known: LengthStats | None = None
    trained: TokenRanges | None = None
    lost: Lost = field(default_factory=Lost)

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
        """(n,) indices of the samples in the sequence of their records."""
        return np.argsort(self.records)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.lengths)

    def trained_tokens(
        self,
        records: Ints,
        starts: Ints | None,
        lengths: Ints,
        follows: npt.NDArray[np.bool_] | None = None,
    ) -> Ints | None:
        """Return (n,) how many tokens of each sample, or part of one, carry loss; None if that is
        unknown.

        The first token of each carries none, since nothing predicts it, unless `follows` says that
        the sample before it in its row does.

        Args:
            records: (n,) record number of each.
            starts: (n,) first token of each; None for the first of its sample.
            lengths: (n,) tokens of each.
            follows: (n,) whether its first token is predicted; None if none is.
        """
        if self.trained is None:
            return None
        places = self.places(records)
        # `skipped` first tokens of each do not count: 1, or 0 where its first token is predicted.
        if starts is not None or follows is not None:
            first_tokens = np.zeros_like(lengths) if starts is None else starts
            skipped = 1 if follows is None else ~follows
            return self.trained.take(places).counts(first_tokens + skipped, first_tokens + lengths)
        # Samples that are not split are whole, or truncated to the longest of these lengths. So the
        # whole corpus is counted once within that limit, and every epoch looks its samples up.
        is_cut = bool((lengths < self.lengths.take(places)).any())
        limit = int(lengths.max()) if is_cut else MAX_INT
        if limit not in self._trained_within:
            self._trained_within[limit] = self.trained.counts(1, limit)
        return self._trained_within[limit].take(places)

    @cached_property
    def _trained_within(self) -> dict[int, Ints]:
        """By a limit, (n,) trained tokens of each sample within its first so many tokens; token 0
        does not count. Filled as limits are asked for.
        """
        return {}

    def places(self, records: Ints) -> Ints:
        """Return (n,) the index of each record among the samples. If these have the records 0, 2
        and 5, record 5 has the index 2.
        """
        if self.is_contiguous:
            return records
        if self._is_ascending:
            return np.searchsorted(self.records, records)
        # Records in any order: search them sorted, and return to the index of the sample.
        return self._by_record[np.searchsorted(self.records, records, sorter=self._by_record)]
