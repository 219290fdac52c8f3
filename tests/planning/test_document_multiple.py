"""Samples padded one by one in their rows: as a corpus of samples that have these lengths."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples

import batchstat
from batchstat import OptionError
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.strategies.spec import StrategySpec
from conftest import plan_epoch

MOST = 48
SPECS = [
    *(f"packed:method={method}" for method in ("bfd", "ffd", "first-fit", "next-fit")),
    *("packed:read_ahead=9,within_samples=false", "packed:max_samples_per_row=2"),
    *("padding-free:max_samples=3", "padding-free:pad_to_multiple_of=5"),
    *("trl:packing=bfd,batch_size=2", "trl:packing=bfd,batch_size=2,read_ahead=7"),
    "axolotl:sample_packing=true",
]
SETTINGS = {"tokens_per_batch": 120, "max_length": MOST}
LENGTHS = st.lists(st.integers(0, MOST), min_size=1, max_size=80)
MULTIPLES = st.sampled_from([1, 2, 6, 10, 16, 36])


def padded(lengths: list[int], multiple: int) -> list[int]:
    """In a plain loop."""
    made = []
    for length in lengths:
        while length % multiple:
            length += 1
        made.append(length)
    return made


def rows_of(multiple: int) -> dict[str, int]:
    """What rows hold that have samples of these multiples."""
    return {"max_length": padded([MOST], multiple)[0]}


def with_multiple(spec: str, multiple: int) -> str:
    name, _, rest = spec.partition(":")
    return f"{name}:document_multiple={multiple}" + f",{rest}" * bool(rest)


@pytest.mark.parametrize("spec", SPECS)
@given(lengths=LENGTHS, multiple=MULTIPLES, drop_last=st.booleans(), ranks=st.sampled_from([1, 3]))
def test_rows_are_those_of_longer_samples(spec, lengths, multiple, drop_last, ranks):
    settings = SETTINGS | {"drop_last": drop_last, "world_size": ranks}

    def plan(spec: str, lengths: list[int], **other: int):
        epoch = InMemoryEpoch(np.arange(len(lengths)), np.array(lengths))
        return plan_epoch(
            StrategySpec.parse(spec).strategy(settings | other), epoch, seed=1, epoch=2
        )

    made = plan(with_multiple(spec, multiple), lengths)
    longer = plan(spec, padded(lengths, multiple), **rows_of(multiple))
    for column in ("samples", "row_offsets", "batch_offsets", "unit_offsets", "widths"):
        assert getattr(made, column).tolist() == getattr(longer, column).tolist()
    assert made.lengths.tolist() == [lengths[i] for i in made.samples.tolist()]
    assert made.padded_lengths.tolist() == longer.lengths.tolist()


@pytest.mark.parametrize("spec", SPECS)
@examples(max_examples=8)  # each plans and measures four epochs
@given(
    remainder=st.sampled_from(["repeat", "spread"]),
    lengths=st.lists(st.integers(1, MOST), min_size=1, max_size=80),
    multiple=MULTIPLES,
    ranks=st.sampled_from([1, 2]),
)
def test_the_padding_of_samples_counts_as_padding(spec, remainder, lengths, multiple, ranks):
    # axolotl drops a last batch that not every rank has.
    settings = SETTINGS | {"world_size": 1 if "axolotl" in spec else ranks, "remainder": remainder}
    ours = with_multiple(spec, multiple)
    [row] = batchstat.compare(lengths, strategies=ours, **settings).strategies
    [longer] = batchstat.compare(
        padded(lengths, multiple), strategies=spec, **settings | rows_of(multiple)
    ).strategies
    for number in ("total_tokens", "squared_tokens", "batches", "reducible_peak", "row_tokens"):
        assert getattr(row.counts, number) == getattr(longer.counts, number)
    batches = [
        batch
        for rank in range(settings["world_size"])
        for batch in batchstat.BatchSampler(lengths, ours, rank=rank, **settings).batches()
    ]
    held = [lengths[record] for batch in batches for record in batch.records]
    assert row.counts.real_tokens == sum(held)
    assert row.counts.real_squared_tokens == sum(length**2 for length in held)
    assert row.counts.total_tokens == sum(len(batch.rows) * batch.width for batch in batches)
    assert row.counts.padding_tokens == row.counts.total_tokens - sum(held)


def test_attention_within_samples_covers_their_padding():
    settings = {"tokens_per_batch": 64, "max_length": 32, "order": "file"}
    [row] = batchstat.compare(
        [5, 17, 3], strategies="padding-free:document_multiple=16", **settings
    ).strategies
    assert row.counts.total_tokens == 16 + 32 + 16
    assert row.counts.squared_tokens == 16**2 + 32**2 + 16**2
    assert row.counts.real_squared_tokens == 5**2 + 17**2 + 3**2


def test_a_multiple_needs_no_other_setting(run, tmp_path):
    (tmp_path / "a.txt").write_text("".join("word " * n + "\n" for n in (3, 21, 9, 40)))
    spec = "packed:document_multiple=16"
    result = run("compare", "a.txt", "--strategy", spec, "--json", "--no-plots")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["strategies"][0]["total_tokens"] % 16 == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("packed:method=wrapped,document_multiple=16", "needs whole samples"),
        ("trl:packing=wrapped,document_multiple=16", "needs whole samples"),
        ("padding-free:document_multiple=0", "document_multiple=0"),
    ],
)
def test_what_cannot_be_padded_is_an_error(spec, message):
    with pytest.raises(OptionError, match=message):
        StrategySpec.parse(spec).strategy(SETTINGS | {"batch_size": 2})
