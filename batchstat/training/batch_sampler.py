"""`BatchSampler`: the batches of a rank, for `DataLoader(batch_sampler=…)`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.parameters import whole_number
from batchstat.planning.inputs import Given, as_given
from batchstat.planning.settings import Basis, Settings
from batchstat.planning.strategies.spec import parse_strategy
from batchstat.storage.addresses import as_path
from batchstat.storage.sealed_records import seal
from batchstat.training.plan_file import load_plan
from batchstat.training.rank_batches import Batch, RankBatches, plan_ranks
from batchstat.training.state import SCHEMA, check_rank, fingerprint, refuse_other

if TYPE_CHECKING:
    from batchstat.profiling.profile import Profile


class BatchSampler:
    """Yields lists of record numbers: exactly the batches that `batchstat compare` measures.

    A pure function of (lengths, settings, seed, epoch): every rank plans by itself, and resuming
    takes two numbers. Call `set_epoch` before every epoch, as with torch's DistributedSampler.
    """

    def __init__(
        self,
        lengths: "Profile | str | Path | npt.ArrayLike",
        strategy: str = "token-budget",
        *,
        labels: Iterable[object] | None = None,
        rank: int = 0,
        world_size: int = 1,
        **settings: Any,
    ) -> None:
        """Checks what is given; the epoch is planned when it is first needed.

        Args:
            lengths: (n,) tokens a sample; or a `Profile`, or its `lengths.parquet`, which bring the
                tokenizer's stated maximum, labels and record numbers.
            strategy: as `batchstat compare --strategy` takes it.
            labels: (n,) the class of each sample, where `balance` goes by it.
            rank: which one this is.
            world_size: how many there are.
            settings: the other fields of `batchstat.Settings`.

        Raises:
            OptionError: a setting, strategy or rank that cannot be meant, or a length that is none.
            InputError: no sample, or a file that is no profile.
        """
        wanted = Settings(world_size=world_size, **settings)
        given = as_given(lengths, labels, wanted.keep_labels)
        if (empty := np.flatnonzero(given.samples.lengths == 0)).size:
            raise OptionError(
                f"record {given.samples.records[empty[0]]} has length 0: a sample without a token "
                "cannot be trained on: leave such samples out"
            )
        check_rank(rank, world_size)
        basis = wanted.decide(given.stats.max, given.stated_max)
        self._begin(_Planned(given, strategy, basis, rank), basis.epoch)

    @classmethod
    def from_plan(cls, path: str | Path, *, rank: int = 0) -> "BatchSampler":
        """The batches of a rank in a file that `batchstat compare --export` wrote: of one epoch.

        Raises:
            OptionError: a rank that is none of the plan's.
            InputError: a file that is no plan.
        """
        made = cls.__new__(cls)
        source = _Exported(as_path(path), rank)
        made._begin(source, source.epoch)
        return made

    def _begin(self, source: "_Source", epoch: int) -> None:
        self._source = source
        self._epoch = epoch
        self._planned: tuple[int, RankBatches] | None = None
        self._start = 0
        self._place = _Place(epoch, 0)
        self._running: _Place | None = None

    @property
    def epoch(self) -> int:
        """The epoch that is iterated next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch. Another than before begins at its first batch."""
        if epoch != self._epoch:
            epoch = whole_number("epoch", epoch, least=0)
            self._source.check_epoch(epoch)
            self._epoch = epoch
            self._start, self._place = 0, _Place(epoch, 0)

    def __len__(self) -> int:
        """How many batches this rank has in the epoch."""
        return len(self._batches(self._epoch))

    def __iter__(self) -> Iterator[list[int]]:
        """The record numbers of each batch.

        Raises:
            InputError: samples are cut into parts, which record numbers alone cannot say.
        """
        epoch = self._epoch
        batches = self._batches(epoch)
        if batches.starts is not None:
            raise InputError(
                "samples are cut into parts, which record numbers alone cannot say: iterate "
                "batches(), which has starts and stops"
            )
        records, edges = batches.records, batches.entry_offsets.tolist()
        start, self._start = self._start, 0
        for place in self._places(_Place(epoch, start), len(batches)):
            yield records[edges[place] : edges[place + 1]].tolist()

    def batches(self) -> Iterator[Batch]:
        """The same batches with all that is known of each: see `Batch`.

        It goes on from where the sampler stands when this is called, so that it runs beside a
        loader: `zip(loader, sampler.batches())`, also where the loader reads ahead.
        """
        return self._known(_Place(self._epoch, self._start))

    def _known(self, own: "_Place") -> Iterator[Batch]:
        batches = self._batches(own.epoch)
        for place in self._places(own, len(batches)):
            yield batches.batch(place)
        if self._running is own and self._epoch == own.epoch:
            self._start = 0

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Where the epoch stands: to be given to `load_state_dict` of an equal sampler.

        It is where the iterator that was started last stands, in that iterator's epoch, whatever
        epoch was chosen while it was running. At the end of an epoch nothing of it is left:
        `set_epoch` goes on to the next one.

        Args:
            consumed: batches of this epoch that training has consumed, counted from its first one:
                `batch.number + 1`; those that were yielded unless it is given, which with a
                loader's workers are more.

        Raises:
            OptionError: more than there are.
        """
        epoch, batches = self._place.epoch, self._place.batches
        if consumed is not None:
            most = len(self._batches(epoch))
            batches = whole_number("consumed", consumed, least=0, most=most)
        return seal(
            {
                "schema": SCHEMA,
                "epoch": epoch,
                "batches": batches,
                "fingerprint": self._source.fingerprint,
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where another sampler stood. Where that was at the end of an epoch, a later epoch
        that is chosen already begins at its first batch.

        Raises:
            OptionError: no state, one of another version, or of other lengths or settings; the
                message says which.
        """
        refuse_other(state, self._source.fingerprint)
        epoch = whole_number("epoch", state["epoch"], least=0)
        if epoch != self._epoch:
            self._source.check_epoch(epoch)
        most = len(self._batches(epoch))
        start = whole_number("batches", state["batches"], 0, most)
        self._running = None
        if start == most and epoch < self._epoch:
            # A loader may load it only as it begins, after the next epoch was chosen.
            self._start, self._place = 0, _Place(self._epoch, 0)
            return
        self._start = start
        self._epoch = epoch
        self._place = _Place(epoch, self._start)

    def check(self, dataset: Any) -> None:
        """Raises InputError: a dataset that has fewer samples than the records say."""
        if len(dataset) < self._source.samples:
            raise InputError(
                f"the dataset has {len(dataset):,} samples, and lengths are of "
                f"{self._source.samples:,}: count it again"
            )

    def _places(self, own: "_Place", n: int) -> Iterator[int]:
        self._running = self._place = own
        for place in range(own.batches, n):
            own.batches = place + 1
            if self._running is own:
                self._place = own
            yield place

    def _batches(self, epoch: int) -> RankBatches:
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # so that two epochs are never held at once
            self._planned = (epoch, self._source.batches(epoch))
        return self._planned[1]


@dataclass
class _Place:
    """Where an iterator stands.

    Attributes:
        epoch: that it iterates.
        batches: that it has yielded, with those before its first one.
    """

    epoch: int
    batches: int


class _Source(ABC):
    """Where the batches of a rank come from.

    Attributes:
        fingerprint: of all that they depend on but the epoch.
        samples: how many the dataset must have.
    """

    fingerprint: dict[str, Any]
    samples: int

    @abstractmethod
    def batches(self, epoch: int) -> RankBatches:
        """Those of an epoch."""

    @abstractmethod
    def check_epoch(self, epoch: int) -> None:
        """Raises OptionError: an epoch that it does not have."""


class _Planned(_Source):
    def __init__(self, given: Given, spec: str, basis: Basis, rank: int) -> None:
        self._samples, self._basis, self._rank = given.samples, basis, rank
        self._strategy = parse_strategy(spec, asdict(basis))
        self.samples = int(given.samples.records[-1]) + 1
        self.fingerprint = fingerprint(given, spec, basis)

    def batches(self, epoch: int) -> RankBatches:
        basis = replace(self._basis, epoch=epoch)
        return plan_ranks(self._samples, self._strategy, basis).of_rank(self._rank)

    def check_epoch(self, epoch: int) -> None:
        """It has all of them."""


class _Exported(_Source):
    def __init__(self, path: Path, rank: int) -> None:
        self._path = path
        every, self.epoch, self.fingerprint = load_plan(path)
        check_rank(rank, every.world_size)
        self._own = every.of_rank(rank)
        self.samples = int(every.records.max()) + 1

    def batches(self, epoch: int) -> RankBatches:  # noqa: ARG002
        return self._own

    def check_epoch(self, epoch: int) -> None:
        raise OptionError(
            f"{self._path.as_posix()} is of epoch {self.epoch}, not of {epoch}: export a plan for "
            "each epoch, or make a BatchSampler from the lengths"
        )
