"""What templates mark, by characters in an ordinary rendering: as transformers has it."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_message_edges import HEAD, LOOP, chats
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from batchstat.corpus.chat import NO_INPUTS
from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition
from batchstat.tokenization.chats.assistant_turns import AssistantTurns
from batchstat.tokenization.chats.chat_template import ChatTemplate
from batchstat.tokenization.chats.generation_marks import (
    BEGIN,
    END,
    find_marked,
    mask_tokens,
    with_begin_and_end,
)
from batchstat.tokenization.token_positions import Offsets, TokenLocator
from tables import in_turn

MARKED = "{% generation %}{{ message.content }}{% endgeneration %}"

TEMPLATES = {
    "the built-in one": CHAT_TEMPLATE,
    "all": LOOP + MARKED + "{% endfor %}",
    "whitespace": LOOP + HEAD + "\n  {%- generation -%}\n {{ message.content }} \n"
    "{%- endgeneration -%}\n  {% endfor %}",
    "a plus": LOOP + "{%+ generation +%}{{ message.content }}{%+ endgeneration +%}{% endfor %}",
    "lines": "{% for message in messages %}\n    " + HEAD + "\n    {% generation %}\n"
    "    {{ message['content'] }}\n    {% endgeneration %}\n\n{% endfor %}",
    "twice in a turn": LOOP + MARKED + ", " + MARKED + "{% endfor %}",
    "nothing, and much": "{% generation %}{% endgeneration %}a"
    + LOOP
    + HEAD
    + MARKED
    + "{% endfor "
    "%}{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}{% endgeneration %}",
    "in a comment": LOOP + "{# {% generation %} #}" + MARKED + "{% endfor %}",
    "the last only": LOOP + "{% if loop.last %}" + MARKED + "{% else %}{{ message.content }}"
    "{% endif %}{% endfor %}",
}
OTHERS = {
    "in a macro": "{% macro m(message) %}" + MARKED + "{% endmacro %}{{ m(messages[0]) }}",
    "in a variable": "{% set a %}" + MARKED + "{% endset %}{{ a | trim }}",
    "in a filter": "{% filter trim %}" + LOOP + MARKED + "{% endfor %}{% endfilter %}",
    "in each other": "{% generation %}" + MARKED + "{% endgeneration %}",
    "sets a variable": "{% generation %}{% set a = 1 %}{% endgeneration %}{{ a }}",
    "leaves the loop": LOOP + "{% generation %}{% continue %}{% endgeneration %}{% endfor %}",
    "in a text": LOOP + "{{ '{% generation %}' }}" + MARKED + "{% endfor %}",
    "not ended": LOOP + "{% generation %}{% endfor %}",
    "its own characters": LOOP + MARKED + BEGIN + "{% endfor %}",
}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(definition()))


@pytest.mark.parametrize("name", TEMPLATES)
@given(chats())
def test_masks_are_those_of_transformers(tokenizer, name, chats):
    turns = AssistantTurns(ChatTemplate(tokenizer, TEMPLATES[name]))
    assert turns._with_begin_and_end is not None

    def locate(texts: list[str]) -> object:
        return tokenizer(texts, add_special_tokens=False)

    try:
        expected = turns.template.mask(chats, NO_INPUTS, locate)
    except OverflowError:  # of an empty part that begins a text
        with pytest.raises(OverflowError):
            turns.mark(chats, NO_INPUTS, locate)
        return
    assert turns.mark(chats, NO_INPUTS, locate) == [bytes(mask) for mask in expected]


@pytest.mark.parametrize("name", ["in a macro", "in a filter"])
@given(chats())
def test_transformers_marks_with_the_tokens_found_here(tokenizer, name, chats):
    """As it asks for them differently in its versions."""
    turns = AssistantTurns(ChatTemplate(tokenizer, OTHERS[name]))
    found = TokenLocator(tokenizer.backend_tokenizer)

    def locate(texts: list[str]) -> object:
        return tokenizer(texts, add_special_tokens=False)

    try:
        expected = turns.template.mask(chats, NO_INPUTS, locate)
    except OverflowError:  # of an empty part that begins a text, before transformers 5.24
        return
    assert turns.mark(chats, NO_INPUTS, partial(found.locate, engine=None)) == [
        *map(bytes, expected)
    ]


def test_a_character_of_several_tokens_is_marked_with_all_of_them():
    """Where a turn ends with it; transformers marks so since version 5.24."""
    tokens = Offsets(np.array([(0, 2), (2, 3), (2, 3), (2, 3), (3, 4)]))
    assert mask_tokens(tokens, [(1, 3)]) == bytes([1, 1, 1, 1, 0])
    assert mask_tokens(tokens, [(0, 0), (2, 2), (3, 4)]) == bytes([0, 0, 0, 0, 1])


@in_turn("name", OTHERS)
def test_a_template_whose_parts_may_be_elsewhere_is_left_as_it_is(name):
    assert with_begin_and_end(OTHERS[name]) is None


@given(st.text(st.sampled_from("ab" + BEGIN + END), max_size=9))
def test_characters_of_a_chat_are_not_taken_for_marks(text):
    found = find_marked(text)
    own = [sign for sign in text if sign in (BEGIN, END)]
    assert (found is None) == (own != [BEGIN, END] * (len(own) // 2))
    if found is not None:
        plain, ranges = found
        assert plain == text.replace(BEGIN, "").replace(END, "")
        assert [plain[a:b] for a, b in ranges] == [
            part.split(END)[0] for part in text.split(BEGIN)[1:]
        ]
