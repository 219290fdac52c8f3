"""`BatchSampler`: the batches of a rank, for `DataLoader(batch_sampler=…)`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from batchstat.batching.spec import parse_strategy
from batchstat.errors import InputError, OptionError
from batchstat.given import as_given
from batchstat.options import whole_number
from batchstat.settings import Settings
from batchstat.training.rank_plan import RankPlan
from batchstat.training.state import SCHEMA, digest, refuse_other

if TYPE_CHECKING:
    from batchstat.profiling.record import Profile


@dataclass(frozen=True)
class Batch:
    """One batch of one rank; empty where the rank takes an empty step.

    Attributes:
        records: of its samples, in the sequence of its rows; a sample that is cut stands here once
            a part.
        starts: first token of each.
        stops: the one after its last.
        rows: how many of them each row holds, in turn: 1 each unless rows are packed.
        width: tokens to which the rows are padded.
        step: which step of the epoch it belongs to.
        ends_step: whether the optimizer steps after it.
        weight: of its mean loss over samples in that of the step: see `RankPlan.weights`.
        token_weight: of its mean loss over tokens.
        repeated: whether each is a repeat that only makes the ranks even.
    """

    records: list[int]
    starts: list[int]
    stops: list[int]
    rows: list[int]
    width: int
    step: int
    ends_step: bool
    weight: float
    token_weight: float
    repeated: list[bool]


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
        given = as_given(lengths, labels, settings.get("keep_labels", ()))
        if (empty := np.flatnonzero(given.samples.lengths == 0)).size:
            raise OptionError(
                f"record {given.samples.records[empty[0]]} has length 0: a sample without a token "
                "cannot be trained on: leave such samples out"
            )
        self._samples = given.samples
        self._basis = Settings(world_size=world_size, **settings).decide(
            given.stats.max, given.stated_max
        )
        if not 0 <= whole_number("rank", rank, least=0) < world_size:
            raise OptionError(f"rank={rank}: must be below world_size={world_size}")
        self._rank = rank
        self._spec = strategy
        self._strategy = parse_strategy(strategy, asdict(self._basis))
        self._planned: tuple[int, RankPlan] | None = None
        self._start = 0
        self._consumed = 0

    @property
    def epoch(self) -> int:
        """The epoch that is iterated next."""
        return self._basis.epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch. Another than before begins at its first batch."""
        if epoch != self._basis.epoch:
            self._basis = replace(self._basis, epoch=whole_number("epoch", epoch, least=0))
            self._start = self._consumed = 0

    def __len__(self) -> int:
        """How many batches this rank has in the epoch."""
        return len(self._plan().batches)

    def __iter__(self) -> Iterator[list[int]]:
        """The record numbers of each batch.

        Raises:
            InputError: samples are cut into parts, which record numbers alone cannot say.
        """
        plan = self._plan()
        if plan.plan.starts is not None:
            raise InputError(
                f"{self._spec} with overflow={self._basis.overflow} cuts samples into parts, which "
                "record numbers alone cannot say: iterate batches(), which has starts and stops"
            )
        samples, edges = plan.plan.samples, plan.entry_offsets.tolist()
        batches = plan.batches.tolist()
        for place in self._places(len(batches)):
            batch = batches[place]
            yield [] if batch < 0 else samples[edges[batch] : edges[batch + 1]].tolist()

    def batches(self) -> Iterator[Batch]:
        """The same batches with all that is known of each: see `Batch`."""
        plan = self._plan()
        numbers, steps = plan.batches, plan.steps
        weights, token_weights = plan.weights(by_tokens=False), plan.weights(by_tokens=True)
        entries = np.where(numbers < 0, 0, np.diff(plan.entry_offsets)[numbers])
        own = np.concatenate([[0], np.cumsum(entries)])
        for place in self._places(len(numbers)):
            last = place + 1 == len(numbers) or steps[place + 1] != steps[place]
            yield _batch(
                plan,
                int(numbers[place]),
                step=int(steps[place]),
                ends_step=bool(last),
                weight=float(weights[place]),
                token_weight=float(token_weights[place]),
                repeated=plan.repeated[own[place] : own[place + 1]].tolist(),
            )

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Where the epoch stands: to be given to `load_state_dict` of an equal sampler.

        Args:
            consumed: batches of this epoch that training has consumed; those that were yielded
                unless it is given, which with a loader's workers are more.

        Raises:
            OptionError: more than there are.
        """
        batches = self._consumed if consumed is None else consumed
        whole_number("consumed", batches, least=0, most=len(self))
        return {
            "schema": SCHEMA,
            "epoch": self._basis.epoch,
            "batches": batches,
            "fingerprint": self._fingerprint,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where another sampler stood.

        Raises:
            OptionError: no state, one of another version, or of other lengths or settings; the
                message says which.
        """
        refuse_other(state, self._fingerprint)
        self.set_epoch(state["epoch"])
        self._start = self._consumed = whole_number("batches", state["batches"], 0, len(self))

    def check(self, dataset: Any) -> None:
        """Raises InputError: a dataset that has not as many samples as there are records."""
        most = int(self._samples.records[-1]) + 1
        if len(dataset) < most:
            raise InputError(
                f"the dataset has {len(dataset):,} samples, and lengths are of {most:,}: count it "
                "again"
            )

    def _places(self, n: int) -> Iterator[int]:
        start, self._start = self._start, 0
        self._consumed = start
        for place in range(start, n):
            self._consumed = place + 1
            yield place

    def _plan(self) -> RankPlan:
        if self._planned is None or self._planned[0] != self._basis.epoch:
            made = RankPlan.of(self._samples, self._strategy, self._basis, self._rank)
            self._planned = (self._basis.epoch, made)
        return self._planned[1]

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        settings = {key: value for key, value in asdict(self._basis).items() if key != "epoch"}
        classes = self._samples.classes
        return {
            "lengths": digest(self._samples.records, self._samples.lengths),
            "labels": None if classes is None else digest(classes.codes),
            "strategy": {"name": self._spec.partition(":")[0], **asdict(self._strategy)},
            **settings,
        }


def _batch(plan: RankPlan, number: int, **known: Any) -> Batch:
    if number < 0:
        return Batch([], [], [], [], 0, **known)
    whole = plan.plan
    rows = whole.row_offsets[whole.batch_offsets[number] : whole.batch_offsets[number + 1] + 1]
    entries = slice(rows[0], rows[-1])
    lengths = whole.lengths[entries]
    starts = np.zeros_like(lengths) if whole.starts is None else whole.starts[entries]
    return Batch(
        records=whole.samples[entries].tolist(),
        starts=starts.tolist(),
        stops=(starts + lengths).tolist(),
        rows=np.diff(rows).tolist(),
        width=int(whole.widths[number]),
        **known,
    )
