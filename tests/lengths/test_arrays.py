"""Helpers for flat arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchstat.lengths.arrays import distinct


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_numbers_are_those_of_a_set(numbers):
    found = distinct(np.array(numbers, dtype=np.int64))
    assert found.tolist() == sorted(set(numbers))
