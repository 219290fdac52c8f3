"""Check that a chat has the same tokens in whole as turn by turn.

batchstat tokenizes the text of a whole chat. Some trainers tokenize each turn by itself, in slots
that they read out of the chat template. If tokens merge between turns, or the template renders a
turn differently beside others, the two have different tokens, and batchstat would count wrong.
"""

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from batchstat.corpus.chat import NO_INPUTS, Message
from batchstat.errors import InputError
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chats.chat import with_chat_template
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.tokenizer import Tokenizer
from batchstat.words import short

_ASKED: Message = {"role": "user", "content": "Who found the 12 letters, and when?"}
_ANSWERS = ("Nobody did.", "12 people", "- nobody", "“No”, he said.", "没有人。", "{}")
"""Answers that begin with characters of several kinds, which may merge with what is before them."""
_SYSTEM: Message = {"role": "system", "content": "Be brief."}

REMEDY = "pass a template with {% generation %} around all of each answer, with --chat-template"


def check_turns(
    name: str | None,
    template: Path | None,
    special_tokens: tuple[str, ...],
    begin: str = "",
    thought: str = "",
) -> None:
    """Raise InputError unless test chats have the same tokens in whole as turn by turn.

    Args:
        name: the tokenizer, as `profile` takes it.
        template: the chat template; None for the tokenizer's own.
        special_tokens: tokens that the template writes, each of which must be one token.
        begin: what the template writes before each answer, such as a space, and the trainer
            tokenizes with the answer.
        thought: what the template writes after that, such as an empty <think> block, and the
            trainer tokenizes by itself.
    """
    loaded = load_tokenizer(BUILTIN if name is None else name)
    encode = loaded.encoder.as_transformers().encode
    for token in special_tokens:
        if len(encode(token, add_special_tokens=False)) != 1:
            raise InputError(
                f"tokenizer {loaded.name!r} has no token {token!r}, which the trainer's template "
                "adds to it",
                "save the tokenizer with it, or name the model's own template",
            )
    tester = with_chat_template(loaded, template)
    # Each answer, in a chat without a system message and in one with it.
    for answer, system in product(_ANSWERS, ([], [_SYSTEM])):
        try:
            problem = _difference(tester, system, answer, begin + thought, is_own=template is None)
            problem = problem or _merge_problem(encode, thought, answer)
        except Exception as error:  # a template may raise anything
            problem = f"does not render a chat of user and assistant ({short(error)})"
        if problem:
            raise InputError(f"the chat template of tokenizer {loaded.name!r} {problem}", REMEDY)


def _merge_problem(encode: Callable[..., list[int]], thought: str, answer: str) -> str:
    """Return a message if a token spans the end of a thought and an answer; empty if none does."""
    parts = [encode(text, add_special_tokens=False) for text in (thought, answer)]
    whole = encode(thought + answer, add_special_tokens=False)
    return "" if whole == parts[0] + parts[1] else "has tokens that merge after a thought"


def _difference(
    tokenizer: Tokenizer, system: list[Message], answer: str, begin: str, *, is_own: bool
) -> str:
    """Return how a test chat differs in whole and turn by turn, as a part of a message; an empty
    text if it does not differ.

    The chat has the same question and answer twice. Its text is cut into the first question (with
    what is before it), the first answer, the second question and the second answer.

    Args:
        tokenizer: the tokenizer, with its chat template.
        system: the messages before the first question: a system message, or none.
        answer: the content of the answers.
        begin: what the template writes before each answer, and the trainer counts to the answer.
        is_own: whether the template is the tokenizer's own, out of which the trainer reads slots.
    """
    assert tokenizer.render_chats is not None, "it was given its chat template before"
    assert tokenizer.mark_chats is not None
    turn: list[Message] = [_ASKED, {"role": "assistant", "content": answer}]
    one_turn, two_turns = [*system, *turn], [*system, *turn, *turn]
    asked, asked_again = _texts_before_answers(tokenizer, [one_turn, two_turns], begin, is_own)
    answered, whole = tokenizer.render_chats([(one_turn, NO_INPUTS), (two_turns, NO_INPUTS)])
    # Each of these must begin with the one before it.
    beginnings = ["", asked, answered, asked_again, whole]
    if not all(longer.startswith(shorter) for shorter, longer in pairwise(beginnings)):
        return "renders a turn differently where others follow"
    # What each of them has more than the one before it: the pieces that are tokenized turn by turn.
    pieces = [longer[len(shorter) :] for shorter, longer in pairwise(beginnings)]
    first_question, first_answer, second_question, second_answer = pieces
    # With slots, both questions must be alike too, but for what is before the first.
    are_questions_alike = not is_own or first_question.endswith(second_question)
    if first_answer != second_answer or not are_questions_alike:
        return "renders the first turn in another way than the next"
    if is_own and "<think>" in first_answer:  # LLaMA-Factory removes it from its slot
        return "adds thoughts to answers"
    encode = tokenizer.encoder.as_transformers().encode
    counts = [len(encode(piece, add_special_tokens=False)) for piece in pieces]
    if is_own:
        # With slots, what is before the first question is tokenized by itself, and the question
        # has as many tokens as the second.
        start = first_question.removesuffix(second_question)
        if system and tokenizer.render_chats([(system, NO_INPUTS)]) != [start]:
            return "renders a system message differently where others follow"
        counts[0] = len(encode(start, add_special_tokens=False)) + counts[2]
    # Turn by turn, the mask of the chat has 0 for tokens of questions and 1 for those of answers:
    # questions and answers alternate in `counts`.
    expected_mask = b"".join(bytes([i % 2]) * size for i, size in enumerate(counts))
    if tokenizer.mark_chats([(two_turns, NO_INPUTS)], tokenizer.encoder.locate) != [expected_mask]:
        return "has marks, or tokens that merge, where an answer begins or ends"
    return ""


_HOLE = "{{content}}"
"""What LLaMA-Factory renders in place of a content, to find out what the template writes around it.
"""


def _texts_before_answers(
    tokenizer: Tokenizer, chats: list[list[Message]], begin: str, is_own: bool
) -> list[str]:
    """Return the text of each chat without its last message, an answer, but with what introduces
    that answer. For the arguments, see `_difference`.
    """
    if is_own:  # the generation prompt introduces an answer
        assert tokenizer.split_chats is not None
        split = tokenizer.split_chats([(chat, NO_INPUTS, len(chat) - 1) for chat in chats])
        return [prompt for prompt, _ in split]
    # A template that was passed need have no generation prompt: what introduces an answer is the
    # text before a made-up one.
    assert tokenizer.render_chats is not None
    marker: Message = {"role": "assistant", "content": "zqxj"}
    texts = tokenizer.render_chats([([*chat[:-1], marker], NO_INPUTS) for chat in chats])
    return [text.rpartition("zqxj")[0].removesuffix(begin) for text in texts]


def check_slots(name: str | None) -> None:
    """Raise InputError if LLaMA-Factory would render chats in another way than the chat template.

    It does not render chats with the tokenizer's own template, but with slots that it reads out of
    it: the texts around contents.

    Source: `parse_template` in src/llamafactory/data/template.py of LLaMA-Factory 0.9.5.

    Args:
        name: the tokenizer, as `profile` takes it.
    """
    loaded = load_tokenizer(BUILTIN if name is None else name)
    with_template = loaded.encoder.as_transformers()
    try:
        slots = _Slots(with_template)
        # The contents of a chat without a system message, and of one with it. They have spaces,
        # because a template may strip them.
        chats = (["", " a ", " b ", " c ", " d "], [" s ", " a ", " b ", " c ", " d "])
        is_same = all(slots.render(chat) == _render(with_template, chat) for chat in chats)
    except Exception:  # a template may raise anything; check_turns, which comes next, reports it
        return
    if not is_same:
        raise InputError(
            f"the chat template of tokenizer {loaded.name!r} gives LLaMA-Factory, which reads the "
            "texts around messages out of it, others than it renders",
            f"set template, or {REMEDY}",
        )


class _Slots:
    """The texts around the contents of messages, as LLaMA-Factory finds them.

    A slot is the text of a message with a hole, `_HOLE`, in place of its content.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Render chats of holes, and take the slot of each message out of their texts."""
        # What the tokenizer writes before every text, such as a token that begins a sequence: each
        # text below begins with it, and [start:] cuts it off.
        self._prefix = str(tokenizer.decode(tokenizer.encode("")))
        start = len(self._prefix)
        self._system = _render(tokenizer, [_HOLE])[start:]
        asked = _render(tokenizer, ["", _HOLE], prompt=True)  # without a system message
        self._user = asked[start:]
        # What an answer adds to the question. LLaMA-Factory removes the tags of thoughts from it,
        # then the line ends that it begins with.
        answer = _render(tokenizer, ["", _HOLE, _HOLE])[len(asked) :]
        self._answer = answer.replace("<think>", "").replace("</think>", "").lstrip("\n")
        # A template may write a default system message where a chat has none. Then the text is
        # longer than after an empty system message, and has the default content in addition.
        empty = [{"role": "system", "content": ""}, {"role": "user", "content": _HOLE}]
        after_empty: str = tokenizer.apply_chat_template(
            empty, tokenize=False, add_generation_prompt=True
        )[start:]
        self._default_system = ""
        if len(self._user) > len(after_empty):
            default_content = _inserted(after_empty, self._user)
            self._default_system = self._system.replace(_HOLE, default_content, 1)
            self._user = self._user[len(self._default_system) :]

    def render(self, contents: list[str]) -> str:
        """Return the text of a chat, given the contents of its system message and of its turns.

        An empty first content stands for a chat without a system message.
        """
        content, *turns = contents
        system = self._system.replace(_HOLE, content, 1) if content else self._default_system
        slots = [self._user, self._answer] * (len(turns) // 2)
        filled = [slot.replace(_HOLE, text, 1) for slot, text in zip(slots, turns, strict=True)]
        return self._prefix + system + "".join(filled)


def _render(tokenizer: Any, contents: list[str], prompt: bool = False) -> str:
    """Return the text of a chat by the tokenizer's chat template.

    Args:
        tokenizer: a transformers tokenizer.
        contents: the contents of a system message, a question, an answer, a question and an answer,
            or of the first of these; a message with an empty content is left out.
        prompt: whether a generation prompt is added.
    """
    roles = ("system", "user", "assistant", "user", "assistant")
    pairs = zip(roles, contents, strict=False)
    chat = [{"role": role, "content": content} for role, content in pairs if content]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt))


def _inserted(short_text: str, long_text: str) -> str:
    """Return the characters that a long text has between those of a short one.

    `ad` and `abcd` -> `bc`. It is `find_diff` of LLaMA-Factory.
    """
    inserted, rest = "", long_text
    for char in short_text:
        before, _, rest = rest.partition(char)
        inserted += before
    return inserted
