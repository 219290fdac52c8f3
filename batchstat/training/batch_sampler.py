"""`BatchSampler`: one rank's batches, for `DataLoader(batch_sampler=…)`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.parameters import checks_keywords, whole_number
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import Batch, RankBatches, plan_ranks
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.storage.sealed_records import seal
from batchstat.training.state import SCHEMA, check_rank, check_same_sampler, fingerprint

if TYPE_CHECKING:
    from batchstat.profiling.profile import Profile


class BatchSampler:
    """Batch sampler that yields exactly the batches that `batchstat compare` measures.

    Each batch is a list of record numbers. Batches are a pure function of (lengths, settings, seed,
    epoch): every rank plans on its own, and resuming takes two numbers. Call `set_epoch` before
    every epoch, as with torch's DistributedSampler.

    Example:
        >>> sampler = batchstat.BatchSampler([5, 90, 12, 100, 7, 8], tokens_per_batch=100)
        >>> list(sampler)
        [[2, 5, 4, 0], [3], [1]]
    """

    @checks_keywords(Settings)
    def __init__(
        self,
        lengths: "Profile | str | Path | npt.ArrayLike",
        strategy: str | StrategySpec = "token-budget",
        *,
        labels: Iterable[object] | None = None,
        rank: int = 0,
        **settings: Unpack[SettingsOptions],
    ) -> None:
        """Check the arguments; the epoch is planned when it is first needed.

        Args:
            lengths: (n,) tokens per sample; or a `Profile`, or its `lengths.parquet`, which also
                provide the tokenizer's `model_max_length`, labels and record numbers.
            strategy: as `batchstat compare --strategy` takes it.
            labels: (n,) the class of each sample, where `sampler` needs it.
            rank: index of this rank, from 0.
            settings: the fields of `batchstat.Settings`.

        Raises:
            OptionError: an invalid setting, strategy, rank or length.
            InputError: no samples, a file that is not a profile, or records that index nothing.
        """
        given = Settings(**settings)
        inputs = resolve_inputs(lengths, labels, given.keep_labels)
        request = StrategySpec.parse(strategy).request(inputs.resolve(given))
        self._begin_request(inputs.samples, request, rank)

    @classmethod
    def of_row(cls, samples: Samples, request: RowRequest, rank: int) -> "BatchSampler":
        """Return one rank's batches of a row of a comparison.

        Raises:
            OptionError: a rank that the row does not have.
        """
        # Not by __init__, which resolves settings: those of a row are resolved.
        sampler = cls.__new__(cls)
        sampler._begin_request(samples, request, rank)
        return sampler

    def _begin_request(self, samples: Samples, request: RowRequest, rank: int) -> None:
        """Set up the sampler from samples and a row of a comparison, which are checked."""
        check_rank(rank, request.settings.world_size)
        samples.check_indexed()
        if (empty := np.flatnonzero(samples.lengths == 0)).size:
            raise OptionError(
                f"record {samples.records[empty[0]]} has length 0: a sample without tokens cannot "
                "be trained on",
                "drop such samples",
            )
        self._samples, self._request = samples, request
        # Not the last: a trainer may have shuffled them.
        self._dataset_size = int(samples.records.max()) + 1
        self._fingerprint = fingerprint(samples, request)
        self._epoch, self._rank = request.settings.epoch, rank
        self._planned: tuple[int, RankBatches] | None = None  # the epoch that was planned last
        self._start = 0  # batch at which the next iterator begins
        self._place = _Place(self._epoch, 0)  # what `state_dict` reports
        self._running: _Place | None = None  # that of the iterator that was started last

    def __repr__(self) -> str:
        """Return the strategy, the rank and the epoch on one line."""
        spec, basis = self._request.spec, self._request.settings
        weighed_tokens = "all" if self._samples.trained is None else "trained"
        return (
            f"BatchSampler({spec!r}, {len(self._samples):,} samples, tokens_per_batch="
            f"{basis.tokens_per_batch}, max_length={basis.max_length}, rank={self._rank} of "
            f"{basis.world_size}, epoch={self._epoch}, token_weight of {weighed_tokens} tokens)"
        )

    @property
    def epoch(self) -> int:
        """The epoch that is iterated next."""
        return self._epoch

    @property
    def rank(self) -> int:
        """Index of this rank, from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(self._fingerprint["world_size"])

    @property
    def gradient_accumulation_steps(self) -> int:
        """Batches per step, on each rank."""
        return int(self._fingerprint["gradient_accumulation_steps"])

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; a different epoch starts at its first batch."""
        if epoch != self._epoch:
            self._epoch = whole_number("epoch", epoch, min_value=0)
            self._start, self._place = 0, _Place(self._epoch, 0)

    def __len__(self) -> int:
        """Return the number of batches of this rank in the epoch."""
        return len(self._batches(self._epoch))

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the record numbers of each batch.

        Raises:
            InputError: samples are split, which record numbers alone cannot represent.
        """
        epoch = self._epoch
        batches = self._batches(epoch)
        if batches.starts is not None:
            raise InputError(
                "samples are split, and record numbers alone cannot represent that",
                "iterate batches() for start and stop offsets",
            )
        records, edges = batches.records, batches.entry_offsets.tolist()
        # A loaded position is for one iterator: the next one starts at the first batch.
        start, self._start = self._start, 0
        for number in self._numbers_from(_Place(epoch, start), len(batches)):
            yield records[edges[number] : edges[number + 1]].tolist()

    def batches(self) -> Iterator[Batch]:
        """Return an iterator over the same batches with all their details: see `Batch`.

        It continues from the sampler's position at the time of this call, so it can run beside a
        loader, even one that prefetches: `zip(loader, sampler.batches())`.
        """
        return self._detailed_batches(_Place(self._epoch, self._start))

    def _detailed_batches(self, position: "_Place") -> Iterator[Batch]:
        """Yield the batches of an epoch with all their details, from `position` on."""
        batches = self._batches(position.epoch)
        for number in self._numbers_from(position, len(batches)):
            yield batches.batch(number)
        # The next iterator starts at the first batch again.
        if self._running is position and self._epoch == position.epoch:
            self._start = 0

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return the position in the epoch, for `load_state_dict` of an equal sampler.

        It is the position of the iterator that was started last, in that iterator's epoch,
        whichever epoch was chosen while it was running. At the end of an epoch nothing remains of
        it: `set_epoch` moves on to the next one.

        Args:
            consumed: batches of this epoch that training has consumed, counted from its first one:
                `batch.number + 1`. Defaults to the batches yielded, which are more than that when
                a loader's workers prefetch.

        Raises:
            OptionError: `consumed` exceeds the batches of the epoch.
        """
        epoch, batches = self._place.epoch, self._place.batches
        if consumed is not None:
            n_batches = len(self._batches(epoch))
            batches = whole_number("consumed", consumed, min_value=0, max_value=n_batches)
        return seal(
            {"schema": SCHEMA, "epoch": epoch, "batches": batches, "fingerprint": self._fingerprint}
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from another sampler's position.

        If that was the end of an epoch, a later epoch that is already chosen starts at its first
        batch.

        Raises:
            OptionError: not a sampler state, or a state of another version, other lengths or other
                settings; the message says which.
        """
        check_same_sampler(state, self._fingerprint)
        epoch = whole_number("epoch", state["epoch"], min_value=0)
        n_batches = len(self._batches(epoch))
        start = whole_number("batches", state["batches"], min_value=0, max_value=n_batches)
        # An iterator that still runs no longer moves the position.
        self._running = None
        if start == n_batches and epoch < self._epoch:
            # A loader may load the state only when it starts, after the next epoch was chosen.
            self._start, self._place = 0, _Place(self._epoch, 0)
            return
        self._start, self._epoch = start, epoch
        self._place = _Place(epoch, start)

    def check(self, dataset: Any) -> None:
        """Check that a dataset has as many samples as the records require; else InputError."""
        if len(dataset) < self._dataset_size:
            raise InputError(
                f"the dataset has {len(dataset):,} samples, but lengths were computed for "
                f"{self._dataset_size:,}",
                "run batchstat profile again",
            )

    def check_steps(self) -> None:
        """Check that a trainer's own loop can train on the epoch; else InputError.

        Such a loop takes `gradient_accumulation_steps` batches per step on every rank, and in the
        last step of the epoch what is left, which must be equally many on all ranks.
        """
        counts = self._batches(self._epoch).step_totals.batches
        # All steps but the last have as many batches as set, the last equally many on each rank.
        if (counts[:-1] != self.gradient_accumulation_steps).any() or np.ptp(counts[-1]) > 0:
            raise InputError(
                f"ranks or steps of epoch {self._epoch} have different numbers of batches",
                "write the training loop around BatchSampler.batches(), or set distribute=batches "
                "and remainder=repeat",
            )

    def _numbers_from(self, position: "_Place", n: int) -> Iterator[int]:
        """Yield the numbers of the batches from `position` to the last; it passes each first."""
        self._running = self._place = position
        for number in range(position.batches, n):
            position.batches = number + 1
            # The iterator started last sets it each time: `set_epoch` may have moved it meanwhile.
            if self._running is position:
                self._place = position
            yield number

    def _batches(self, epoch: int) -> RankBatches:
        """Return the batches of this rank in an epoch; the last epoch that was planned is kept."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # so that two epochs are never in memory at once
            settings = replace(self._request.settings, epoch=epoch)
            shares = make_shares(self._samples, settings)
            of_all_ranks = plan_ranks(shares, replace(self._request, settings=settings))
            self._planned = (epoch, of_all_ranks.of_rank(self._rank))
        return self._planned[1]


def check_setup(sampler: BatchSampler, **of_trainer: int) -> None:
    """Raise OptionError if a sampler and its trainer differ in a number, and say in which."""
    if not isinstance(sampler, BatchSampler):
        raise OptionError(f"{type(sampler).__name__} is not a BatchSampler", "pass one")
    for key, value in of_trainer.items():
        own = getattr(sampler, key)
        if own != value:
            raise OptionError(
                f"the sampler has {key}={own}, but the trainer has {value}",
                f"pass {key}={value} to BatchSampler",
            )


@dataclass
class _Place:
    """Position of an iterator, which moves it as it yields."""

    epoch: int  # epoch being iterated
    batches: int  # batches before its current position, including those before its first one
