"""`Turns`: what a limit leaves of prompts and answers. LLaMA-Factory itself is in integration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchstat.trainers.llama_factory.samples import Turns
from tables import in_turn

CHATS = st.lists(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=4), max_size=5
)


def turns_of(chats: list[list[tuple[int, int]]]) -> Turns:
    flat = np.array([turn for chat in chats for turn in chat], dtype=np.int64).reshape(-1, 2)
    offsets = np.cumsum([0, *map(len, chats)])
    return Turns(flat[:, 0], flat[:, 1], offsets)


@given(CHATS)
def test_turns_are_found_in_the_ranges_of_answers(chats):
    turns = turns_of(chats)
    found = Turns.of(turns.trained())
    assert found.prompts.tolist() == turns.prompts.tolist()
    assert found.answers.tolist() == turns.answers.tolist()
    assert found.offsets.tolist() == turns.offsets.tolist()


@given(CHATS, st.integers(1, 200), st.booleans())
def test_a_limit_holds_and_chats_within_it_stay_whole(chats, limit, last_first):
    turns = turns_of(chats)
    left = turns.within(limit, last_first=last_first)
    assert (left.lengths() <= limit).all()
    assert (left.prompts <= turns.prompts).all()
    assert (left.answers <= turns.answers).all()
    whole = turns.lengths() <= limit
    assert (left.lengths()[whole] == turns.lengths()[whole]).all()
    assert (left.lengths()[~whole] > limit - 2).all()
    assert left.trained().fits(left.lengths())


@in_turn(
    ("turns", "limit", "last_first", "expected"),
    [
        ([(10, 10)], 10, False, [(5, 5)]),  # both in proportion
        ([(30, 4)], 10, False, [(6, 4)]),  # a short answer stays whole
        ([(4, 30)], 10, False, [(4, 6)]),  # then a short prompt
        ([(6, 2), (5, 5)], 12, False, [(6, 2), (2, 2)]),  # the second has what is left
        ([(6, 2), (5, 5)], 12, True, [(2, 0), (5, 5)]),
        ([(48, 1)], 49, False, [(48, 1)]),
        ([(20, 29)], 49, False, [(20, 29)]),
    ],
)
def test_what_is_left_of_turns(turns, limit, last_first, expected):
    left = turns_of([turns]).within(limit, last_first=last_first)
    assert list(zip(left.prompts.tolist(), left.answers.tolist(), strict=True)) == expected
