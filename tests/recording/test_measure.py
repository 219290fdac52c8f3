"""Batches that anybody made: their numbers are those of a plain loop over them."""

from collections import Counter
from itertools import count, cycle, pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import BatchSampler, InputError, OptionError
from batchstat.documents.comparison import comparison_document
from batchstat.planning.strategies.registry import OWN_STRATEGIES
from conftest import check_schema
from tables import in_turn

LENGTHS = np.random.default_rng(0).integers(1, 300, 1000)
BATCHES = st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=6), min_size=1, max_size=30)


def in_a_loop(batches, lengths, ranks, accumulation, multiple):
    """What compute, peak, steps, repeats and the unseen are, batch by batch."""
    turns = [batches[first : first + ranks] for first in range(0, len(batches), ranks)]
    turns[-1] += (batches * ranks)[: ranks - len(turns[-1])]
    held = [batch for turn in turns for batch in turn]
    widths = [-(-max(lengths[i] for i in batch) // multiple) * multiple for batch in held]
    total = [len(batch) * width for batch, width in zip(held, widths, strict=True)]
    seen = Counter(i for batch in held for i in batch)
    return {
        "total_tokens": sum(total),
        "real_tokens": sum(lengths[i] for batch in held for i in batch),
        "max_batch_tokens": max(total),
        "batches": len(held),
        "steps": -(-len(turns) // accumulation),
        "distinct_shapes": len({(len(b), w) for b, w in zip(held, widths, strict=True)}),
        "samples": sum(seen.values()),
        "duplicated_samples": sum(seen.values()) - len(seen),
        "dropped_samples": len(lengths) - len(seen),
    }


@given(
    batches=BATCHES,
    lengths=st.lists(st.integers(1, 90), min_size=40, max_size=40),
    ranks=st.integers(1, 4),
    accumulation=st.integers(1, 3),
    multiple=st.sampled_from([1, 8]),
)
def test_lists_are_measured_as_in_a_loop(batches, lengths, ranks, accumulation, multiple):
    row = batchstat.measure(
        iter(batches),
        lengths,
        world_size=ranks,
        gradient_accumulation_steps=accumulation,
        pad_to_multiple_of=multiple,
    )
    expected = in_a_loop(batches, lengths, ranks, accumulation, multiple)
    assert {key: getattr(row.counts, key) for key in expected} == expected


@pytest.mark.parametrize("name", [*OWN_STRATEGIES, "hf-group-by-length", "fairseq", "lhotse"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_batches_of_a_strategy_give_its_row(name, ranks):
    settings = {"tokens_per_batch": 1500, "world_size": ranks, "max_length": 200}
    row = batchstat.compare(LENGTHS, strategies=name, **settings).current
    of_ranks = []
    for rank in range(ranks):
        sampler = BatchSampler(LENGTHS, name, rank=rank, **settings)
        of_ranks.append([])
        for batch in sampler.batches():
            ends = np.cumsum([0, *batch.rows]).tolist()
            rows = [batch.records[a:b] for a, b in pairwise(ends)]
            of_ranks[-1].append(rows if row.packs_rows else batch.records)
    measured = batchstat.measure(per_rank=of_ranks, lengths=LENGTHS, **settings).counts
    for key in ("real_tokens", "batches", "steps", "rows", "samples", "duplicated_samples"):
        assert getattr(measured, key) == getattr(row.counts, key), key
    if name != "fixed":  # whose rows are wider than their longest
        assert measured.total_tokens == row.counts.total_tokens
        assert measured.max_batch_tokens == row.counts.max_batch_tokens
        assert measured.ranks.idle == pytest.approx(row.counts.rank_idle)
    assert measured.sample_coverage.unseen_samples == row.counts.sample_coverage.unseen_samples


def test_a_sampler_is_a_row_of_a_comparison():
    sampler = BatchSampler(LENGTHS, "bucketed", batch_size=8, read_ahead=100)
    spec = "bucketed:batch_size=8,read_ahead=100"
    made = batchstat.compare(
        LENGTHS, current="static:batch_size=8", strategies=[spec, ("mine", sampler)]
    )
    mine, same = made["mine"], made[spec]
    assert mine.counts == same.counts
    assert mine.label == mine.name == "mine"
    assert mine.params == {}
    assert made.speed_up(mine) == made.speed_up(same) > 1
    first = len(same.first_batches)
    assert mine.first_batches.widths[:first].tolist() == same.first_batches.widths.tolist()
    document = comparison_document(made)
    check_schema(document, "compare")
    assert "mine" in made.to_frame()["strategy"].tolist()
    assert "mine" in batchstat.to_html(made)
    assert batchstat.plot(made, "batches").encoded("png")[:4] == b"\x89PNG"
    alone = batchstat.compare(
        LENGTHS, current="static:batch_size=8", strategies=[("mine", sampler)]
    )
    assert alone.best.label == "mine"
    as_current = batchstat.compare(
        LENGTHS, current="mine", strategies=[("mine", [[i] for i in range(1000)]), "static"]
    )
    assert as_current.current.label == "mine"
    row = batchstat.measure(sampler, LENGTHS, tokens_per_batch=made.basis.tokens_per_batch)
    assert row.counts == mine.counts
    assert batchstat.measure(sampler, LENGTHS).counts.over_budget_batches == 0


def test_sample_numbers_are_records_of_a_profile(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one two\n\nthree\n\nfour five six\n")
    profile = batchstat.profile(path)
    assert profile.records.tolist() == [0, 2, 4]
    row = batchstat.measure([[0, 4], [2]], profile)
    assert row.counts.real_tokens == int(profile.lengths.sum())
    with pytest.raises(
        InputError, match=r"has sample 1, but there are 3 samples, numbered 0 to 4 with gaps"
    ):
        batchstat.measure([[0, 1]], profile)


@in_turn(
    ("batches", "given", "message"),
    [
        ([], {}, "there is no batch"),
        ([[0], []], {}, "batch 1 is empty"),
        ([[0], 5], {}, "batch 1 is 5, not a list"),
        ([[0, 1000]], {}, "has sample 1,000, but there are 1,000 samples, numbered 0 to 999"),
        ([[0, -1]], {}, "has sample -1"),
        ([[0.5]], {}, r"0\.5 is not a sample number"),
        ([["a"]], {}, "'a' is not a sample number"),
        ([[[0], 1]], {}, "some rows are sequences of sample numbers, others are not"),
        (range(9), {}, "yields single numbers, such as 0: pass batch_size"),
        (7, {}, "must be batches of sample numbers, such as a batch_sampler"),
    ],
)
def test_what_is_no_batch_of_samples(batches, given, message):
    with pytest.raises(InputError, match=message):
        batchstat.measure(batches, LENGTHS, **given)


@in_turn(("batches", "given"), [(cycle([[1, 2]]), {}), (count(), {"batch_size": 4})])
def test_batches_that_never_end(batches, given):
    """Found out after many times as many samples as there are: here few."""
    with pytest.raises(InputError, match="has no end after .* samples: pass steps=N"):
        batchstat.measure(batches, LENGTHS[:10], **given)


def test_what_does_not_go_together():
    with pytest.raises(OptionError, match="pass batches, or per_rank"):
        batchstat.measure([[0]], LENGTHS, per_rank=[[[0]]])
    with pytest.raises(OptionError, match="per_rank needs the lengths"):
        batchstat.measure(per_rank=[[[0]]])
    with pytest.raises(OptionError, match="remove sampler, keep_labels and an overflow other than"):
        batchstat.measure([[0]], LENGTHS, overflow="drop")
    with pytest.raises(OptionError, match="'static' is a strategy's name: give your batches anoth"):
        batchstat.compare(LENGTHS, strategies=[("static", [[0]])])
    with pytest.raises(
        OptionError, match=r"batches of your own \(mine\) hold samples of the whole"
    ):
        batchstat.compare(LENGTHS, strategies=[("mine", [[0]])], overflow="split")
    endless = cycle([[1, 2]])
    assert batchstat.measure(endless, LENGTHS, steps=7).counts.batches == 7
    settings = {"steps": 5, "world_size": 3, "gradient_accumulation_steps": 2}
    assert batchstat.measure(endless, LENGTHS, **settings).counts.batches == 5 * 3 * 2
    assert batchstat.measure(endless, LENGTHS, **settings).counts.steps == 5
    each = batchstat.measure(None, LENGTHS, per_rank=[endless] * 3, **settings).counts
    assert (each.batches, each.steps) == (5 * 3 * 2, 5)
    numbers = batchstat.measure(cycle(range(20)), LENGTHS, steps=3, batch_size=4).counts
    assert (numbers.batches, numbers.samples) == (3, 12)
    assert batchstat.measure(range(9), LENGTHS, batch_size=4).counts.batches == 3


def test_nobody_knows_what_the_next_epoch_of_given_batches_drops():
    """Each epoch of a sampler that drops its last batch drops other samples."""
    made = batchstat.compare(LENGTHS, strategies=[("mine", [[0, 1], [2, 3]]), "static"])
    assert made["mine"].counts.dropped_samples == 996
    assert made["mine"].dropped_again is None
