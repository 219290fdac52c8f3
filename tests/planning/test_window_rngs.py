"""The generators of windows, seeded together, are those that NumPy makes one by one."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import example, given

from batchstat.planning.windows import WindowGenerators, seed_states

WORDS = st.integers(0, 2**32 - 1)


@given(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=5))
def test_states_are_those_of_a_seed_sequence(seed, epoch, windows):
    found = seed_states(seed, epoch, np.array(windows))
    for window, state in zip(windows, found, strict=True):
        expected = np.random.SeedSequence((seed, epoch, window)).generate_state(4, np.uint64)
        assert state.tolist() == expected.tolist()


@given(st.integers(0, 2**33), st.integers(0, 2**33), st.lists(st.integers(0, 5000), max_size=5))
@example(0, 0, [1023, 1024, 0])
@example(2**32, 0, [1])
def test_every_window_has_the_stream_of_its_numbers(first, seed, windows):
    generators = WindowGenerators(seed, 1)
    for window in windows:
        expected = np.random.default_rng((seed, 1, first + window))
        assert generators.of_window(first, window).random(3).tolist() == expected.random(3).tolist()
