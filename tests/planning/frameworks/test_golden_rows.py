"""Frameworks that pack: the rows of the originals, made by golden/make.py, sample for sample."""

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import InputError, OptionError
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.samplers.torch_random import torch_permutation
from batchstat.planning.strategies.spec import StrategySpec
from conftest import packed, plan_epoch
from tables import in_turn

GOLDEN = Path(__file__).parent / "golden"

Rows = list[list[list[int]]]


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def plan(spec: str, lengths: list[int], epoch: int = 0, **settings: object) -> BatchPlan:
    strategy = StrategySpec.parse(spec).strategy(
        {"batch_size": 1, "given_batch_size": 1} | settings
    )
    visits = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
    return plan_epoch(strategy, visits, seed=5, epoch=epoch)


def batches(made: BatchPlan) -> list[Rows]:
    """Batches of rows of [sample, tokens]."""
    entries = np.stack([made.samples, made.lengths], axis=1)
    rows = [part.tolist() for part in np.split(entries, made.row_offsets[1:-1])]
    return [rows[a:b] for a, b in pairwise(made.batch_offsets.tolist())]


@pytest.mark.parametrize("case", cases("llama-factory"), ids=lambda case: str(case["max_length"]))
def test_llama_factory(case):
    made = plan(
        "llama-factory:packing=plain", case["lengths"], epoch=2, max_length=case["max_length"]
    )
    drawn = torch_permutation(len(case["rows"]), 5 + 2)
    assert batches(made) == [[case["rows"][i]] for i in drawn]
    assert set(made.widths.tolist()) == {-(-case["max_length"] // 8) * 8}


def test_llama_factory_packs_what_each_process_preprocesses_at_a_time():
    """Of 7 samples, three processes get 3, 2 and 2, and pack them two at a time."""
    spec = "llama-factory:packing=plain,preprocessing_num_workers=3,read_ahead=2"
    made = plan(spec, [1] * 7, max_length=9)
    held = sorted([sample for sample, _ in row] for (row,) in batches(made))
    assert held == [[1, 0], [2], [4, 3], [6, 5]]
    alone = plan("llama-factory:packing=plain,preprocessing_num_workers=99", [1] * 3, max_length=9)
    assert sorted(alone.samples.tolist()) == [0, 1, 2]
    assert len(alone) == 3


def test_llama_factory_gives_a_sample_of_the_whole_row_a_row_of_its_own():
    made = plan("llama-factory:packing=unpadded", [16, 1, 15, 14], max_length=16)
    rows = sorted((row, width) for (row,), width in zip(batches(made), made.widths, strict=True))
    assert rows == [([[0, 16]], 16), ([[2, 15]], 15), ([[3, 14], [1, 1]], 15)]


def test_llama_factory_isolates_samples_with_neat_packing_only():
    lengths = [3, 4, 5] * 9
    made = batchstat.compare(
        lengths,
        strategies=["llama-factory:packing=plain", "llama-factory:packing=masked"],
        max_length=17,
    ).strategies
    assert [row.request.strategy.attends_within_samples for row in made] == [False, True]
    assert made[0].counts.total_tokens == made[1].counts.total_tokens
    with pytest.raises(OptionError, match="set batch_size=1"):
        batchstat.compare(lengths, strategies=["llama-factory:packing=unpadded"])


@in_turn("case", cases("axolotl"))
def test_axolotl(case):
    """The batches of every rank in sequence, in two epochs."""
    given = {key: case[key] for key in ("max_length", "batch_size", "world_size", "seed")}
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            sampler = batchstat.BatchSampler(
                case["lengths"],
                packed(f"axolotl:{case['spec']}"),
                rank=rank,
                epoch=epoch,
                **given,
            )
            if not expected:
                with pytest.raises(InputError, match="no batches left"):
                    list(sampler.batches())
                continue
            found = []
            for batch in sampler.batches():
                ends = [0, *accumulate(batch.rows)]
                found.append([batch.records[a:b] for a, b in pairwise(ends)])
            assert found == expected


@in_turn("case", cases("grain"))
def test_grain(case):
    spec = f"grain:{case['spec']}"
    made = plan(spec, case["lengths"], epoch=2, max_length=case["max_length"])
    assert batches(made) == [[row] for row in case["rows"]]
    assert set(made.widths.tolist()) == {case["max_length"]}


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_of_grain_pack_their_own_slices(drop_last):
    lengths = cases("grain")[-1]["lengths"]
    given = {"max_length": 128, "drop_last": drop_last, "batch_size": 4}
    spec = "grain:num_packing_bins=5"
    for rank in range(3):
        own = plan(spec, lengths[rank::3], **given)
        expected = [
            [sample * 3 + rank for row in rows for sample, _ in row] for rows in batches(own)
        ]
        sampler = batchstat.BatchSampler(
            lengths, spec, rank=rank, world_size=3, order="file", **given
        )
        assert [list(batch.records) for batch in sampler.batches()] == expected
        sizes = [len(rows) for rows in batches(own)]
        assert set(sizes[:-1]) == {4}
        assert (sizes[-1] == 4) or not drop_last


@in_turn("case", cases("llm-foundry"))
def test_llm_foundry(case):
    """Batch for batch, what is left over included; of auto, the ratio too."""
    size = case["batch_size"]
    given = {"max_length": case["max_length"], "batch_size": size, "given_batch_size": size}
    made = plan(f"llm-foundry:{case['spec']}", case["lengths"], **given)
    assert batches(made) == case["batches"]
    assert set(made.widths.tolist()) == {case["max_length"]}


def test_llm_foundry_packs_nothing_where_it_finds_no_ratio():
    for spec, longest in (("llm-foundry", 100), ("llm-foundry:packing_ratio=1", 300)):
        made = plan(spec, [5, 4, 3], max_length=longest, batch_size=2)
        assert batches(made) == [[[[0, 5]], [[1, 4]]], [[[2, 3]]]]
    alone = plan("llm-foundry:packing_ratio=1.5", [5, 6], max_length=300, batch_size=2)
    assert batches(alone) == [[[[1, 6]], [[0, 5]]]]  # the fullest first, as what is packed


def test_llm_foundry_refuses_what_cannot_be_meant(monkeypatch):
    for spec in ("packing_ratio=0.5", "packing_ratio=nan", "packing_ratio=inf"):
        with pytest.raises(OptionError, match="must be 1 or more"):
            plan(f"llm-foundry:{spec}", [1], max_length=9)
    # Every row that waits is looked through for each sample: with 10,000, that takes long.
    monkeypatch.setattr("batchstat.planning.frameworks.llm_foundry._MOST_WAITING", 300)
    with pytest.raises(InputError, match="more than 300 rows are left over: lower packing_ratio"):
        plan("llm-foundry:packing_ratio=20", [8] * 400, max_length=9)


@in_turn("case", cases("nemo"))
def test_nemo(case):
    """The rows; their sequence is random."""
    made = plan(f"nemo:{case['spec']}", case["lengths"], max_length=case["max_length"])
    assert sorted(row for (row,) in batches(made)) == sorted(case["rows"])
    held = np.add.reduceat(made.lengths, made.row_offsets[:-1])
    assert made.widths.tolist() == [min(-(-n // 16) * 16, case["max_length"]) for n in held]
