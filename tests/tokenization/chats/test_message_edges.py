"""Where messages end by one rendering: as rendering each beginning of a chat by itself has it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from batchstat.corpus.chat import NO_INPUTS
from batchstat.tokenization.builtin import definition
from batchstat.tokenization.chats.assistant_turns import AssistantTurns
from batchstat.tokenization.chats.chat_template import ChatTemplate, TemplateError
from batchstat.tokenization.chats.message_edges import EDGE, with_edges
from tables import in_turn

HEAD = "{{ '<' + message['role'] + '>' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
LOOP = "{% for message in messages %}"

STREAMED = {
    "plain": LOOP + HEAD + "{{ message['content'] }}\n{% endfor %}" + PROMPT,
    "whitespace": "{{ bos_token }}\n{%- for message in messages %}\n  " + HEAD + "\n"
    "    {{- message.content }}\n  {%- endfor -%}\n" + PROMPT,
    "lines": "{% for message in messages %}\n    " + HEAD + "{{ message['content'] }}\n"
    "    {% endfor %}" + PROMPT,
    "system first": "{% if messages[0]['role'] == 'system' %}{% set s = messages[0].content %}"
    "{% else %}{% set s = 'none' %}{% endif %}{{ s }}" + LOOP + "{% if not loop.first or "
    "message.role != 'system' %}"
    + HEAD
    + "{{ message.content | trim }}{% endif %}{% endfor %}"
    + PROMPT,
    "counts": "{% set ns = namespace(n=0) %}" + LOOP + "{% set ns.n = ns.n + 1 %}{{ ns.n }}"
    "{{ loop.index0 }}" + HEAD + "{{ message.content }}{% endfor %}" + PROMPT,
    "inner loop": LOOP + HEAD + "{% for word in message.content.split() %}{{ word }}"
    "{% if not loop.last %}, {% endif %}{% endfor %}{% endfor %}" + PROMPT,
    "prompt with the question": LOOP + "{% if message.role == 'assistant' %}{{ message.content }}"
    "{{ eos_token }}{% else %}" + HEAD + "{{ message.content }}<assistant>{% endif %}{% endfor %}",
    "marks": LOOP
    + HEAD
    + "{% generation %}{{ message.content }}{% endgeneration %}\n{% endfor %}"
    + PROMPT,
    "endfor as text": "{{ '{% endfor %}' }}{# {% endfor %} #}" + LOOP + HEAD + "{{ message.content "
    "}}{{ '{% endfor %}' }}{% endfor %}" + PROMPT,
}
OTHERS = {
    "last": LOOP + HEAD + "{{ message.content }}{% if loop.last %}!{% endif %}{% endfor %}",
    "last of an outer loop": LOOP + "{% for c in loop.last ~ '' %}{{ c }}{% endfor %}{% endfor %}",
    "next": LOOP + HEAD + "{{ loop.nextitem }}{% endfor %}",
    "length": "{{ messages | length }}" + LOOP + HEAD + "{% endfor %}",
    "last message": LOOP + HEAD + "{{ messages[-1].content }}{% endfor %}",
    "second message": "{{ messages[1].content }}" + LOOP + HEAD + "{% endfor %}",
    "another name": "{% set all = messages %}{{ all | length }}" + LOOP + HEAD + "{% endfor %}",
    "an inner loop over all": LOOP + "{% for m in messages %}.{% endfor %}{% endfor %}",
    "two loops": LOOP + HEAD + "{% endfor %}" + LOOP + HEAD + "{% endfor %}",
    "an end": LOOP + HEAD + "{% endfor %}{{ eos_token }}",
    "an end in its loop's else": LOOP + HEAD + "{% else %}none{% endfor %}",
    "an end without a prompt": LOOP + HEAD + "{% endfor %}{% if add_generation_prompt %}<assistant>"
    "{% else %}{{ eos_token }}{% endif %}",
    "a prompt of the chat": LOOP + HEAD + "{% endfor %}{% if add_generation_prompt %}"
    "{{ messages[0].role }}{% endif %}",
    "a prompt in the loop": LOOP + HEAD + "{% if add_generation_prompt %}?{% endif %}{% endfor %}",
    "some": "{% for message in messages if message.role == 'user' %}" + HEAD + "{% endfor %}",
    "breaks": LOOP
    + "{% if message.role == 'user' %}{% continue %}{% endif %}"
    + HEAD
    + "{% endfor %}",
    "in a filter": "{% filter upper %}" + LOOP + HEAD + "{% endfor %}{% endfilter %}",
    "reversed": "{% for message in messages | reverse %}" + HEAD + "{% endfor %}",
    "no loop": "{{ messages[0].content }}",
    "no template": "{% for %}",
}
CONTENTS = st.text(st.sampled_from("ab \n<>{}%é" + EDGE), max_size=8)


def chats() -> st.SearchStrategy[list[list[dict[str, str]]]]:
    message = st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]),
        CONTENTS,
    )
    first = message.filter(lambda each: each["role"] != "assistant")
    chat = st.builds(lambda head, rest: [head, *rest], first, st.lists(message, max_size=5))
    return st.lists(chat, min_size=1, max_size=3)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer.from_str(definition())
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


@pytest.mark.parametrize("name", STREAMED)
@given(chats())
def test_turns_are_those_of_rendering_each_beginning(tokenizer, name, chats):
    turns = AssistantTurns(ChatTemplate(tokenizer, STREAMED[name]))
    assert turns._with_edges is not None
    positions = [
        [i for i, message in enumerate(chat) if message["role"] == "assistant"] for chat in chats
    ]
    texts = turns.template.render(chats, NO_INPUTS)
    try:
        expected = texts, turns._turns_by_two_renderings(chats, NO_INPUTS, texts, positions)
    except TemplateError as error:
        with pytest.raises(TemplateError, match=str(error)[:60]):
            turns._find_turns(chats, NO_INPUTS)
        return
    assert turns._find_turns(chats, NO_INPUTS) == expected


@pytest.mark.parametrize("name", STREAMED)
@given(chats(), st.randoms(use_true_random=False))
def test_prompts_are_those_of_rendering_them(tokenizer, name, chats, rng):
    turns = AssistantTurns(ChatTemplate(tokenizer, STREAMED[name]))
    firsts = [rng.randint(1, len(chat)) for chat in chats]
    begun = [chat[:n] for chat, n in zip(chats, firsts, strict=True)]
    prompts = turns.template.render(begun, NO_INPUTS, generation_prompt=True)
    wholes = turns.template.render(chats, NO_INPUTS)
    assert turns.split(chats, NO_INPUTS, firsts) == list(zip(prompts, wholes, strict=True))


@in_turn("name", OTHERS)
def test_a_template_that_may_look_ahead_is_left_as_it_is(name):
    assert with_edges(OTHERS[name]) is None


def test_a_published_template_has_edges(real_data):
    config = (real_data / "tokenizers" / "qwen2" / "tokenizer_config.json").read_text()
    template = json.loads(config)["chat_template"]
    assert with_edges(template).replace("{% if true %}" + EDGE + "{% endif %}", "") == template
