"""Helpers for flat arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchstat.lengths.stats import distinct


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_numbers_are_those_of_a_set(numbers):
    values, counts = distinct(np.array(numbers, dtype=np.int64))
    assert values.tolist() == sorted(set(numbers))
    assert counts.tolist() == [numbers.count(value) for value in values.tolist()]
