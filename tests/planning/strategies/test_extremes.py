"""Every integer setting at its ends, on corpora of every odd shape: held against a plain loop."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from types import NoneType
from typing import Any, get_args

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import batchstat
from batchstat import BatchSampler, InputError, OptionError, RankSampler
from batchstat.errors import BatchstatError
from batchstat.parameters import MAX_INT
from batchstat.planning import samples as room
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.registry import STRATEGIES
from conftest import packed

CORPORA = {
    "one": [5],
    "ones": [1] * 17,
    "equal": [64] * 30,
    "mixed": [3, 9, 27, 81, 243] * 6,
    "one giant": [2, 3, 5, 7, 11] * 4 + [MAX_INT],
    "giants": [MAX_INT] * 9,
    "rising": list(range(1, 60)),
}
ENDS = st.sampled_from([1, 2, 7, 64, MAX_INT - 1, MAX_INT])


def whole_numbers(record: type) -> list[str]:
    return [
        field.name
        for field in fields(record)
        if field.type is int or set(get_args(field.type)) == {int, NoneType}
    ]


@st.composite
def specs(draw: st.DrawFn, name: str) -> str:
    own = whole_numbers(STRATEGIES[name])
    given_ = draw(st.dictionaries(st.sampled_from(own), ENDS, max_size=2))
    if name == "packed":
        methods = ["bfd", "ffd", "first-fit", "next-fit", "wrapped"]
        given_["method"] = draw(st.sampled_from(methods))
    return packed(f"{name}:{','.join(f'{key}={value}' for key, value in given_.items())}")


@st.composite
def all_settings(draw: st.DrawFn) -> dict[str, Any]:
    numbers = [name for name in whole_numbers(Settings) if name != "world_size"]
    distribute = draw(st.sampled_from(["batches", "samples", "independent", "chunks", "balanced"]))
    remainders = ["repeat", "drop", "uneven", "dummy"]
    return {
        **draw(st.dictionaries(st.sampled_from(numbers), ENDS, max_size=4)),
        "world_size": draw(st.sampled_from([1, 2, 3, 7])),
        "distribute": distribute,
        "remainder": draw(
            st.sampled_from(remainders + ["spread"] * (distribute in ("batches", "balanced")))
        ),
        "overflow": draw(st.sampled_from(["truncate", "drop", "split"])),
        "order": draw(st.sampled_from(["file", "shuffled", "blocks"])),
        "drop_last": draw(st.booleans()),
    }


def covered(parts: Iterable[tuple[int, int, int]]) -> int:
    """Tokens in at least one part; a repeated sample may be cut at other places."""
    total, last, end = 0, -1, 0
    for record, start, stop in sorted(parts):
        end = end if record == last else 0
        total += max(0, stop - max(start, end))
        last, end = record, max(end, stop)
    return total


@settings(max_examples=3)
@pytest.mark.parametrize("name", STRATEGIES)
@given(data=st.data())
def test_the_numbers_are_those_of_the_batches(name, data):
    lengths = CORPORA[data.draw(st.sampled_from(list(CORPORA)))]
    spec, given_ = data.draw(specs(name)), data.draw(all_settings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "_memory", lambda: 10 << 20)
        try:
            counts = batchstat.compare(lengths, strategies=[spec], **given_).strategies[0].counts
        except BatchstatError:
            return
        ranks = [
            list(BatchSampler(lengths, spec, rank=rank, **given_).batches())
            for rank in range(given_["world_size"])
        ]
    batches = [batch for rank in ranks for batch in rank if batch.rows]
    sizes = [len(batch.rows) * batch.width for batch in batches]
    parts = Counter(
        part
        for batch in batches
        for part in zip(batch.records, batch.starts, batch.stops, strict=True)
    )
    assert counts.batches == len(batches)
    assert counts.max_batch_tokens == max(sizes)
    largest = (b.step for b, size in zip(batches, sizes, strict=True) if size == max(sizes))
    assert counts.largest_step == min(largest) + 1
    assert counts.total_tokens == sum(sizes) == counts.real_tokens + counts.padding_tokens
    assert counts.real_tokens == sum((b - a) * times for (_, a, b), times in parts.items())
    assert counts.real_squared_tokens == sum(
        (b - a) ** 2 * times for (_, a, b), times in parts.items()
    )
    records = {record for record, _, _ in parts}
    assert counts.sample_coverage.unique_samples == len(records)
    assert counts.coverage == len(records) / len(lengths)
    assert all(0 <= a < b <= lengths[record] for record, a, b in parts)
    if given_["distribute"] != "independent":  # whose ranks draw by themselves
        once = covered(parts)
        assert counts.real_tokens - counts.duplicated_tokens == once
        assert counts.samples - counts.duplicated_samples == len(records)
        assert counts.dropped_samples == len(lengths) - len(records)
        assert once + counts.truncated_tokens + counts.dropped_tokens == sum(lengths)


def test_coverage_of_wrapped_packing_that_drops():
    """A sample whose first part is left out, and whose second is not, is covered."""
    lengths = np.random.default_rng(3).integers(1, 200, 300)
    given_ = {"world_size": 8, "remainder": "drop", "tokens_per_batch": 1024, "max_length": 128}
    for spec in ("packed:method=wrapped", "packed:method=wrapped,drop_last=true"):
        counts = batchstat.compare(lengths, strategies=[spec], **given_).strategies[0].counts
        seen = {
            record
            for rank in range(8)
            for batch in BatchSampler(lengths, spec, rank=rank, **given_).batches()
            for record in batch.records
        }
        assert len(seen) < 300
        assert counts.coverage == len(seen) / 300
        assert counts.dropped_samples == 300 - len(seen)


@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_more_parts_than_memory(order):
    with pytest.raises(InputError, match=r"makes 10,000,000,000 samples per .*raise max_length"):
        batchstat.compare([10**9] * 10, max_length=1, overflow="split", order=order)


def test_packed_rows_shorter_than_a_sample():
    """By the histogram too, where nothing is laid out."""
    with pytest.raises(
        InputError, match="packed: a sample of 9 tokens is longer than max_length=5"
    ):
        batchstat.compare([3, 9, 4], strategies=["packed:max_length=5"])


@pytest.mark.parametrize("world_size", [100_001, 2 * 10**9, 10**30])
def test_more_ranks_than_anybody_has(run, tmp_path, world_size):
    """Refused before anything is allocated, wherever it is said."""
    message = f"world_size={world_size}: must be between 1 and 100,000"
    for make in (
        lambda: Settings(world_size=world_size),
        lambda: batchstat.compare([3, 4], world_size=world_size),
        lambda: BatchSampler([3, 4], world_size=world_size),
        lambda: RankSampler([3, 4], 0, world_size),
    ):
        with pytest.raises(OptionError, match=message):
            make()
    if world_size == 2 * 10**9:
        (tmp_path / "a.txt").write_text("some words\n")
        ended = run("compare", "a.txt", "--world-size", world_size)
        assert (ended.returncode, message in ended.stderr) == (2, True)
        (tmp_path / "pyproject.toml").write_text(f"[tool.batchstat]\nworld-size = {world_size}\n")
        ended = run("compare", "a.txt")
        assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize("distribute", ["samples", "chunks", "independent"])
def test_ranks_that_plan_by_themselves_are_fewer(distribute):
    with pytest.raises(
        OptionError, match=f"world_size=10001 with distribute={distribute}: .*at most 10,000 "
    ):
        Settings(world_size=10_001, distribute=distribute)
    assert Settings(world_size=10_001).world_size == 10_001


@pytest.mark.parametrize(
    ("remainder", "what"), [("repeat", "only compute samples that"), ("uneven", "have nothing to")]
)
def test_more_ranks_than_samples(remainder, what):
    made = batchstat.compare([3, 4], strategies=["static"], world_size=100_000, remainder=remainder)
    (warning,) = [each for each in made.warnings if each.id == "ranks/more-than-samples"]
    assert warning.message.startswith(
        f"more ranks (100,000) than samples (2): with remainder={remainder}, at least"
    )
    assert f"99,998 ranks {what}" in warning.message
    few = batchstat.compare([3, 4, 5], strategies=["static"], world_size=3)
    assert "ranks/more-than-samples" not in {each.id for each in few.warnings}


@pytest.mark.parametrize("best_fit", [False, True])
@pytest.mark.parametrize("bins", [13, 14, 2**31 - 1])
def test_rows_that_stay_empty_are_not_made(best_fit, bins):
    """More of them open than there are samples, up to 10^9, change nothing."""
    lengths = np.random.default_rng(0).integers(1, 9, 13)
    spec = f"grain:best_fit={str(best_fit).lower()},num_packing_bins={bins}"
    given_ = {"max_length": 10, "batch_size": 2, "order": "file"}
    found = [list(batch.rows) for batch in BatchSampler(lengths, spec, **given_).batches()]
    usual = [
        list(batch.rows)
        for batch in BatchSampler(lengths, spec.replace(str(bins), "13"), **given_).batches()
    ]
    assert found == usual
