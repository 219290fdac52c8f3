"""Every strategy on lengths that break loops: a plan of all samples, or one clear error."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import InputError
from batchstat.documents.base import to_text
from batchstat.documents.comparison import comparison_document
from conftest import SPECS, check_schema

BUDGET = 64
HOSTILE = {
    "one sample": [7],
    "one empty sample among others": [0, 5, 0],
    "all equal": [16] * 50,
    "one giant": [3] * 20 + [10**9] + [3] * 20,
    "two giants": [10**9, 10**9 - 1],
    "all 1": [1] * 300,
    "budget hit exactly": [BUDGET] * 9,
    "budget missed by one": [BUDGET + 1] * 9,
    "budget hit by a batch": [BUDGET // 4] * 4,
    "budget missed by a batch": [BUDGET // 4 + 1] * 4,
    "budget below the shortest": [5 * BUDGET, 9 * BUDGET, 7 * BUDGET],
    "two lengths": [1, 64] * 40,
    "rising": list(range(1, 200)),
    "falling": list(range(200, 0, -1)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_lengths(subtests, case):
    lengths = HOSTILE[case]
    made = batchstat.compare(lengths, strategies=SPECS, tokens_per_batch=BUDGET)
    check_schema(json.loads(to_text(comparison_document(made))), "compare")
    for name in SPECS:
        with subtests.test(name):
            holds_what_is_true_of_any(made[name], lengths, made.bounds.batches)


def holds_what_is_true_of_any(row, lengths, fewest_batches):
    counts = row.counts
    assert counts.samples == len(lengths)
    assert counts.real_tokens == sum(lengths)
    assert 0 <= counts.padding_ratio < 1
    assert counts.relative_cost(1, 0) >= 1
    assert counts.relative_cost(0, 1) >= 1
    one = np.ones(1, int)
    # The bound is of tokens, which a strategy with a budget of its own does not cap.
    caps_tokens = row.request.strategy.exceeds_own_budget(one, one) is None
    assert fewest_batches <= counts.batches or counts.over_budget_batches or not caps_tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
@given(
    lengths=st.lists(st.sampled_from([0, 1, 2, 63, 64, 65, 128, 900]), min_size=1, max_size=60),
    budget=st.sampled_from([1, 63, 64, 65, 1000]),
    multiple=st.sampled_from([1, 8, 64]),
    drop_last=st.booleans(),
    overflow=st.sampled_from(["truncate", "drop", "split"]),
    max_length=st.sampled_from([None, 1, 64, 65]),
)
def test_hostile_settings(name, lengths, budget, multiple, drop_last, overflow, max_length):
    settings = {
        "tokens_per_batch": budget,
        "pad_to_multiple_of": multiple,
        "drop_last": drop_last,
        "overflow": overflow if max_length else "truncate",
        "max_length": max_length,
    }
    try:
        made = batchstat.compare(lengths, strategies=[name], **settings)
    except InputError as error:
        reason = str(error)
        made = None
    if made is None:
        known = ["no batches left", "no tokens in", "leaves no sample"]
        assert any(part in reason for part in known)
        return
    row = made.strategies[0].counts
    assert row.samples + row.dropped_samples == len(lengths)
    assert row.real_tokens + row.lost_tokens == sum(lengths)
    assert row.max_batch_tokens % multiple == 0


def test_more_tokens_than_a_machine_word_can_square():
    """The squares of widths are summed exactly, beyond 64 bits."""
    lengths = np.full(20, 2**31 - 1)
    made = batchstat.compare(lengths, strategies=["static", "padding-free"])
    for row in made.strategies:
        assert row.counts.squared_tokens == 20 * (2**31 - 1) ** 2
        assert row.counts.relative_cost(0, 1) == 1
