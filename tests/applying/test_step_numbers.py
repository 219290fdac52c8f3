"""The batches of all ranks out of one drawing, and the steps that ranks make of them."""

import threading
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchstat.applying import regrouping
from batchstat.applying.regrouping import Regrouper, Way
from batchstat.applying.step_numbers import StepNumbers, batches_of_ranks
from conftest import needs

pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Sharding:
    """How the samples of an epoch come to ranks."""

    n_samples: int
    rows: int
    world_size: int
    kind: str  # "accelerate", "distributed"; "alone" on each rank
    drop_last: bool = False
    even: bool = True
    split: bool = False
    skipped: int = 0

    def sampler(self, rank: int) -> Any:
        """The sampler of batches of a rank."""
        import torch
        from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler

        texts, world_size = range(self.n_samples), self.world_size
        if self.kind == "distributed":
            own = DistributedSampler(texts, world_size, rank, seed=2, drop_last=self.drop_last)
            return BatchSampler(own, self.rows, self.drop_last)
        sampler: Any = RandomSampler(texts, generator=torch.Generator().manual_seed(3))
        sampler = BatchSampler(sampler, self.rows, self.drop_last)
        if self.kind == "alone":
            return sampler
        from accelerate.data_loader import BatchSamplerShard, SkipBatchSampler

        options = {"split_batches": self.split, "even_batches": self.even}
        if world_size > 1:
            sampler = BatchSamplerShard(sampler, world_size, rank, **options)
        return SkipBatchSampler(sampler, self.skipped) if self.skipped else sampler

    def batches(self, rank: int) -> list[list[int]]:
        """What a rank has without batchstat."""
        return [[*batch] for batch in self.sampler(rank)]


@st.composite
def shardings(draw: Any) -> Sharding:
    world_size = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["accelerate", "distributed"] if world_size > 1 else ["alone"]))
    split = kind == "accelerate" and draw(st.booleans())
    rows = draw(st.integers(1, 4)) * (world_size if split else 1)
    flags = {name: draw(st.booleans()) for name in ("drop_last", "even")}
    skipped = draw(st.integers(0, 3)) if kind == "accelerate" else 0
    n_samples = draw(st.integers(world_size, 60))
    return Sharding(n_samples, rows, world_size, kind, **flags, split=split, skipped=skipped)


@given(shardings())
def test_one_rank_knows_the_batches_of_all(sharding):
    needs("accelerate")
    expected = [sharding.batches(rank) for rank in range(sharding.world_size)]
    for rank in range(sharding.world_size):
        found = batches_of_ranks(sharding.sampler(rank), rank, sharding.world_size)
        assert found is not None
        assert [[[*batch] for batch in of_rank] for of_rank in found] == expected


@given(shardings())
def test_one_rank_knows_them_drawn_in_turn(sharding):
    """One batch of each rank at a time, as a step is drawn."""
    needs("accelerate")
    expected = [sharding.batches(rank) for rank in range(sharding.world_size)]
    found = batches_of_ranks(sharding.sampler(0), 0, sharding.world_size)
    assert found is not None
    for turn in range(max(map(len, expected)) + 1):
        now = [next(of_rank, None) for of_rank in found]
        assert now == [of_rank[turn] if turn < len(of_rank) else None for of_rank in expected]


class Iterator:
    """An iterator of a loader, as far as regrouping knows one."""

    def __init__(self, sampler: Any) -> None:
        self._index_sampler, self._sampler_iter = sampler, iter(())


class Ranks:
    """Reduces numbers of threads, which are ranks."""

    def __init__(self, world_size: int) -> None:
        self.barrier, self.numbers = threading.Barrier(world_size, timeout=20), [None] * world_size
        self.rank, self.n_reductions = threading.local(), 0

    def largest(self, numbers: Any) -> Any:
        self.numbers[self.rank.value] = numbers
        self.barrier.wait()
        found = np.max([list(each) for each in self.numbers], axis=0).tolist()  # type: ignore[call-overload]
        self.n_reductions += not self.rank.value
        self.barrier.wait()
        return found


@dataclass
class Loop:
    """A loop of one rank, which takes batches through a queue of workers."""

    sharding: Sharding
    way: Way
    lengths: Any
    ranks: Ranks
    ahead: int
    epochs: int
    fault_at: int  # a step that cannot be planned, on the last rank

    def run(self, rank: int) -> tuple[list[list[list[int]]], list[list[int]]]:
        """Return (the batches of each step of this rank, those of no step)."""
        self.ranks.rank.value = rank
        place = rank, self.sharding.world_size
        regrouper = Regrouper(self.way, [(("ids",), 0)], self.lengths, lambda: place)
        self._plant(regrouper, rank)
        steps, waiting = [], []
        for _ in range(self.epochs):
            iterator = Iterator(self.sharding.sampler(rank))
            numbers: StepNumbers = regrouper.begin(iterator, len(waiting))
            asked: deque[Any] = deque()
            n_passed, is_ended = 0, False
            while True:
                while len(asked) <= self.ahead and not is_ended:
                    try:
                        asked.append(next(numbers))
                    except StopIteration:
                        is_ended = True
                if not asked:
                    break
                batch = asked.popleft()
                regrouper.note_batch(numbers, {"ids": self._ids(batch)})
                waiting.append(batch)
                n_passed += 1
                if len(waiting) == self.way.accumulation:
                    regrouper.note_step(len(waiting), n_passed)
                    steps.append(waiting)
                    waiting = []
            assert not numbers.handed
        self.is_on = regrouper.is_on
        return steps, waiting

    def _ids(self, batch: list[int]) -> Any:
        import torch

        own = self.lengths[0, batch]
        return (torch.arange(int(own.max())) < torch.tensor(own)[:, None]).long()

    def _plant(self, regrouper: Regrouper, rank: int) -> None:
        if self.fault_at and rank == self.sharding.world_size - 1:

            def planned(*_: Any) -> Any:
                raise ValueError("planted")

            regrouper._planned = planned  # type: ignore[method-assign]


def run_ranks(loop: Loop) -> list[tuple[list[list[list[int]]], list[list[int]]]]:
    """What each rank came to, in threads."""
    found: list[Any] = [None] * loop.sharding.world_size

    def run(rank: int) -> None:
        try:
            found[rank] = loop.run(rank)
        except BaseException as error:
            found[rank] = error
            loop.ranks.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(found))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(regrouping, "largest_of_ranks", loop.ranks.largest)
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found


@st.composite
def loops(draw: Any) -> Loop:
    sharding = draw(shardings())
    n_samples = 30 * sharding.world_size + draw(st.integers(0, 40))
    sharding = Sharding(**{**vars(sharding), "n_samples": n_samples})
    over_ranks = sharding.world_size > 1 and draw(st.booleans())
    accumulation, equal_sizes = draw(st.integers(1, 4)), draw(st.booleans())
    tokens = draw(st.sampled_from([40, 1000]))
    way = Way(over_ranks, equal_sizes, accumulation, tokens, 1, [0], False, False)
    lengths = np.array([[1 + (7 * n * n) % 23 for n in range(n_samples)]], dtype=np.int32)
    ahead, epochs = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    return Loop(sharding, way, lengths, Ranks(sharding.world_size), ahead, epochs, 0)


def plain_steps(loop: Loop, rank: int) -> tuple[list[list[list[int]]], list[list[int]]]:
    """The steps of a rank without batchstat."""
    batches = loop.epochs * loop.sharding.batches(rank)
    n, n_whole = loop.way.accumulation, len(batches) // loop.way.accumulation
    cuts = [k * n for k in range(n_whole + 1)]
    return [batches[a:b] for a, b in pairwise(cuts)], batches[n_whole * n :]


def samples(steps_of_ranks: Any, over_ranks: bool) -> Any:
    """The samples of each step: of all ranks together, or of each."""
    of_ranks = [[sorted(n for b in s for n in b) for s in steps] for steps in steps_of_ranks]
    if not over_ranks:
        return of_ranks
    return [sorted(n for own in step for n in own) for step in zip(*of_ranks, strict=True)]


@given(loops())
def test_every_step_keeps_its_samples_and_every_rank_its_number_of_batches(loop):
    needs("accelerate")
    plain = [plain_steps(loop, rank) for rank in range(loop.sharding.world_size)]
    n_batches = {len(steps) for steps, _ in plain}
    found = run_ranks(loop)
    assert [[len(s) for s in steps] for steps, _ in found] == [
        [len(s) for s in p] for p, _ in plain
    ]
    assert [len(rest) for _, rest in found] == [len(rest) for _, rest in plain]
    assert all(batch for steps, _ in found for step in steps for batch in step)
    if len(n_batches) == 1:
        of_ranks = ([steps for steps, _ in which] for which in (found, plain))
        one, other = (samples(each, loop.way.over_ranks) for each in of_ranks)
        assert one == other
    drawn, epoch = (
        sorted(n for steps, rest in which for step in [*steps, rest] for b in step for n in b)
        for which in (found, plain)
    )
    assert drawn == epoch
    # Where an epoch begins, and after the first steps.
    assert loop.ranks.n_reductions <= loop.epochs + 1


def test_most_steps_are_regrouped():
    way = Way(True, False, 3, 1000, 1, [0], False, False)
    lengths = np.array([[1 + (7 * n * n) % 23 for n in range(240)]], dtype=np.int32)
    loop = Loop(Sharding(240, 4, 2, "distributed"), way, lengths, Ranks(2), 0, 1, 0)
    changed = [
        [one != other for one, other in zip(found[0], plain_steps(loop, rank)[0], strict=True)]
        for rank, found in enumerate(run_ranks(loop))
    ]
    assert not any(changed[0][:5] + changed[1][:5])
    assert all(one or other for one, other in zip(*(each[5:] for each in changed), strict=True))


def test_an_error_while_a_step_is_planned_leaves_it_as_it_came(capsys):
    """It ends regrouping on all ranks where the next epoch begins."""
    way = Way(False, False, 3, 1000, 1, [0], False, False)
    lengths = np.array([[1 + (7 * n * n) % 23 for n in range(240)]], dtype=np.int32)
    loop = Loop(Sharding(240, 4, 2, "distributed"), way, lengths, Ranks(2), 0, 2, 1)
    found = run_ranks(loop)
    plain = [plain_steps(loop, rank) for rank in range(2)]
    assert found[1] == plain[1]
    n = len(plain[0][0]) // 2
    assert found[0][0][:n] != plain[0][0][:n]
    assert found[0][0][n:] == plain[0][0][n:]
    printed = capsys.readouterr().err
    assert "batchstat: steps are not regrouped: ValueError('planted')" in printed
    assert "batchstat: steps are not regrouped: another rank cannot go on" in printed


def test_a_collator_is_told_of_the_multiple_by_which_a_device_has_few_widths():
    needs("torch")
    from types import SimpleNamespace

    from torch.utils.data import BatchSampler, SequentialSampler

    from batchstat.applying.loaders import CuttingCollate, SharedCut

    collate = SimpleNamespace(pad_to_multiple_of=None)
    sampler = BatchSampler(SequentialSampler(range(8)), 2, drop_last=False)
    way = Way(False, False, 2, 100, 64, (0,), False, False, sets_multiple=True)
    iterator = SimpleNamespace(
        _index_sampler=sampler, _collate_fn=CuttingCollate(collate, SharedCut())
    )
    Regrouper(way, (), (), lambda: (0, 1)).begin(iterator, 0)
    assert collate.pad_to_multiple_of == 64
    assert not regrouping.set_multiple(len, 64)
