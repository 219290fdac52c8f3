"""Where ranks wait: what is counted against ranks that have clocks."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import BatchSampler
from batchstat.planning.rules import WAITS
from batchstat.simulation.results import Timeline
from conftest import needs
from tables import in_pairs

LENGTHS = np.random.default_rng(4).lognormal(3.5, 0.9, 300).astype(int).clip(1, 300)


class Clocks:
    """Ranks that compute a token in a second, and wait for each other where they meet."""

    def __init__(self, ranks: int) -> None:
        self.now, self.busy = [0] * ranks, 0

    def compute(self, tokens: list[int]) -> None:
        self.now = [now + more for now, more in zip(self.now, tokens, strict=True)]
        self.busy += sum(tokens)

    def meet(self) -> int:
        """Wait for the slowest; return how long all ranks do together."""
        slowest = max(self.now)
        waited = sum(slowest - now for now in self.now)
        self.now = [slowest] * len(self.now)
        return waited


def steps_of(lengths, strategy: str, **settings) -> list[list[list[int]]]:
    """Total tokens of each batch, by step and rank, from what a rank's DataLoader is given."""
    ranks = []
    for rank in range(settings["world_size"]):
        steps: dict[int, list[int]] = {}
        for batch in BatchSampler(lengths, strategy, rank=rank, **settings).batches():
            steps.setdefault(batch.step, []).append(len(batch.rows) * batch.width)
        ranks.append(steps)
    numbers = sorted(set().union(*ranks))
    return [[steps.get(number, []) for steps in ranks] for number in numbers]


@in_pairs(
    strategy=["static:batch_size=5", "bucketed:batch_size=5", "token-budget", "packed"],
    world_size=[2, 3, 7],
    accumulation=[1, 2, 5],
    remainder=["repeat", "uneven", "dummy", "drop"],
    distribute=["batches", "balanced", "samples"],
    wait=["step", "micro-batch"],
)
def test_ranks_wait_as_clocks_do(strategy, world_size, accumulation, remainder, distribute, wait):
    settings = {
        "tokens_per_batch": 600,
        "world_size": world_size,
        "gradient_accumulation_steps": accumulation,
        "remainder": remainder,
        "distribute": distribute,
        "wait": wait,
    }
    row = batchstat.compare(LENGTHS, strategies=[strategy], **settings).strategies[0]
    clocks, slowest, worst = Clocks(world_size), [], (-1, 0, 0)
    for number, step in enumerate(steps_of(LENGTHS, strategy, **settings)):
        begun = clocks.now[0]
        turns = max(map(len, step))
        tokens = [[batches[i] if i < len(batches) else 0 for batches in step] for i in range(turns)]
        meetings = tokens if wait == "micro-batch" else [[*map(sum, zip(*tokens, strict=True))]]
        waits = []
        for meeting in meetings:
            clocks.compute(meeting)
            waits.append(clocks.meet())
        worst = max(worst, (sum(waits), -number, max(waits)))
        slowest.append(clocks.now[0] - begun)
    ranks = row.counts.ranks
    assert ranks.slowest_tokens == ranks.compute == clocks.now[0]
    assert row.counts.rank_idle == pytest.approx(1 - clocks.busy / (world_size * clocks.now[0]))
    assert ranks.worst.step == -worst[1]
    assert (ranks.worst.tokens - ranks.worst.mean_tokens) * world_size == pytest.approx(worst[2])
    assert row.timeline_of(len(slowest)).slowest.tolist() == slowest
    mean = row.timeline_of(len(slowest)).mean
    assert mean.sum() == pytest.approx(clocks.busy / world_size)


@given(
    st.lists(st.lists(st.integers(0, 2**62), min_size=2, max_size=2), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(1, 9),
)
def test_a_point_of_the_timeline_has_the_slowest_of_its_steps(tokens, per_step, most):
    steps = [tokens[i : i + per_step] for i in range(0, len(tokens), per_step)]
    line = Timeline.of(np.array(tokens), most, per_step)
    size = line.steps_per_point
    assert len(line.slowest) == -(-len(steps) // size) <= most
    of_steps = [sum(map(max, step)) for step in steps]
    expected = [max(of_steps[i : i + size]) for i in range(0, len(steps), size)]
    assert line.slowest.tolist() == expected


@pytest.mark.parametrize("accumulation", [1, 4])
def test_waiting_more_often_is_never_shorter_and_changes_no_batch(accumulation):
    settings = {"tokens_per_batch": 600, "world_size": 4}
    settings |= {"gradient_accumulation_steps": accumulation}
    once, often = (batchstat.compare(LENGTHS, wait=wait, **settings) for wait in WAITS)
    longer = []
    for one, other in zip(once, often, strict=True):
        # Whose batches, or how they reach the ranks, are chosen for where these wait.
        if one.name == "regrouped" or one.label != other.label:
            continue
        assert one.counts.batches == other.counts.batches
        assert one.counts.total_tokens == other.counts.total_tokens
        longer.append(other.counts.ranks.slowest_tokens - one.counts.ranks.slowest_tokens)
    assert min(longer) >= 0
    assert any(longer) == (accumulation > 1)


# A model whose forward takes a millisecond for each ten tokens.
WAITING = """
import json, sys, time
from contextlib import nullcontext
import torch
from batchstat import BatchSampler
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

settings, lengths = json.loads(sys.argv[1])
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = DistributedDataParallel(torch.nn.Linear(1, 1))
sampler = BatchSampler(lengths, "static:batch_size=2", rank=rank, world_size=2, **settings)
distributed.barrier()
begun = time.monotonic()
for batch in sampler.batches():
    meets = batch.ends_step or settings["wait"] == "micro-batch"
    with nullcontext() if meets else model.no_sync():
        loss = model(torch.ones(1, 1)).sum()
        time.sleep(len(batch.rows) * batch.width / 10_000)
        loss.backward()
print(time.monotonic() - begun)
distributed.destroy_process_group()
"""


@pytest.mark.torch
@pytest.mark.parametrize("wait", WAITS)
def test_ranks_of_gloo_wait_at_least_as_long(warm_python, tmp_path, wait):
    """With DistributedDataParallel, which averages gradients in a backward outside of no_sync. A
    sleep is never shorter than it was asked to be.
    """
    needs("torch")
    settings = {"wait": wait, "gradient_accumulation_steps": 4}
    row = batchstat.compare(
        LENGTHS[:80], strategies=["static:batch_size=2"], world_size=2, **settings
    ).strategies[0]
    (script := tmp_path / "wait.py").write_text(WAITING)
    given = json.dumps([settings, LENGTHS[:80].tolist()])
    for printed in warm_python.run(script, given, ranks=2):
        assert float(printed) >= row.counts.compute / 10_000
