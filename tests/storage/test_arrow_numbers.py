"""Numbers between NumPy and Arrow."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from batchstat.storage.arrow_numbers import as_arrow, as_numpy

INTEGERS = st.lists(st.integers(0, 2**31 - 1))


@given(INTEGERS, st.integers(0, 5), st.sampled_from([pa.int32(), pa.int64(), pa.uint32()]))
def test_numbers_are_the_same_in_numpy(numbers, first, kind):
    found = as_numpy(pa.array(numbers, kind).slice(first))
    assert found.tolist() == numbers[first:]
    assert found.dtype == kind.to_pandas_dtype()


@given(st.lists(st.booleans()), st.integers(0, 9))
def test_booleans_are_the_same_in_numpy(flags, first):
    found = as_numpy(pa.array(flags, pa.bool_()).slice(first))
    assert found.dtype == np.bool_
    assert found.tolist() == flags[first:]


@given(INTEGERS, st.sampled_from(["<i4", "<i8", "<u4"]), st.integers(1, 3))
def test_numbers_are_the_same_in_arrow(numbers, kind, step):
    given_ = np.array(numbers, kind)[::step]
    made = as_arrow(given_)
    made.validate(full=True)
    assert made.equals(pa.array(given_, pa.int64()))
