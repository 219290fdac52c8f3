"""Whether a tokenizer makes of the turns of a chat, one by one, what it makes of the whole chat.

Some trainers tokenize each turn by itself, in slots that they read out of the chat template.
"""

from collections.abc import Callable
from itertools import pairwise, product, takewhile
from pathlib import Path
from typing import Any

from batchstat.corpus.chat import NO_INPUTS, Message
from batchstat.errors import InputError, short
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chats.chat import with_chat_template
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.tokenizer import Tokenizer

_ASKED: Message = {"role": "user", "content": "Who found the 12 letters, and when?"}
_ANSWERS = ("Nobody did.", "12 people", "- nobody", "“No”, he said.", "没有人。", "{}")
_SYSTEM: Message = {"role": "system", "content": "Be brief."}

REMEDY = "pass a template with {% generation %} around all of each answer, with --chat-template"


def check_turns(
    name: str | None,
    template: Path | None,
    special_tokens: tuple[str, ...],
    begin: str = "",
    thought: str = "",
) -> None:
    """Raise InputError unless the whole of a chat has the tokens of its turns, one by one.

    Args:
        name: the tokenizer, as `profile` takes it.
        template: the chat template; None for the tokenizer's own.
        special_tokens: tokens that the template writes, each of which must be one token.
        begin: what the template writes before each answer, as a part of it.
        thought: the same, tokenized by itself.
    """
    loaded = load_tokenizer(BUILTIN if name is None else name)
    encode = loaded.encoder.as_transformers().encode
    for each in special_tokens:
        if len(encode(each, add_special_tokens=False)) != 1:
            raise InputError(
                f"tokenizer {loaded.name!r} has no token {each!r}, which the trainer's template "
                "adds to it: save the tokenizer with it, or name the model's own template"
            )
    chats = with_chat_template(loaded, template)
    for answer, before in product(_ANSWERS, ([], [_SYSTEM])):
        try:
            problem = _problem(chats, before, answer, begin + thought, is_own=template is None)
            problem = problem or _merged(encode, thought, answer)
        except Exception as error:  # a template may raise anything
            problem = f"does not render a chat of user and assistant ({short(error)})"
        if problem:
            raise InputError(f"the chat template of tokenizer {loaded.name!r} {problem}: {REMEDY}")


def _merged(encode: Callable[..., list[int]], thought: str, answer: str) -> str:
    """Return why a thought and an answer are not tokenized one by one; empty if they are."""
    parts = [encode(each, add_special_tokens=False) for each in (thought, answer)]
    whole = encode(thought + answer, add_special_tokens=False)
    return "" if whole == parts[0] + parts[1] else "has tokens that merge after a thought"


def _problem(
    tokenizer: Tokenizer, before: list[Message], answer: str, begin: str, *, is_own: bool
) -> str:
    """Return why a chat is not its turns one by one; empty if it is."""
    assert tokenizer.split_chats is not None, "it was given its chat template before"
    assert tokenizer.render_chats is not None
    assert tokenizer.mark_chats is not None
    turn: list[Message] = [_ASKED, {"role": "assistant", "content": answer}]
    chat, first = [*before, *turn, *turn], len(before) + 1
    ended = [chat[: first + 1], chat]
    if is_own:
        # What begins an answer is its generation prompt; a template that was passed has marks.
        asked = [
            text
            for text, _ in tokenizer.split_chats(
                [(each, NO_INPUTS, len(each) - 1) for each in ended]
            )
        ]
    else:
        marker = "zqxj"
        open_ended = [[*each[:-1], {**turn[1], "content": marker}] for each in ended]
        asked = [
            text.rpartition(marker)[0].removesuffix(begin)
            for text in tokenizer.render_chats([(each, NO_INPUTS) for each in open_ended])
        ]
    texts = tokenizer.render_chats([(each, NO_INPUTS) for each in ended])
    edges = [asked[0], texts[0], asked[1], texts[1]]
    if not all(longer.startswith(shorter) for shorter, longer in pairwise(edges)):
        return "renders a turn differently where others follow"
    pieces = [edges[0], *(longer[len(shorter) :] for shorter, longer in pairwise(edges))]
    if pieces[1] != pieces[3] or (is_own and not pieces[0].endswith(pieces[2])):
        return "renders the first turn in another way than the next"
    if is_own and "<think>" in pieces[1]:
        return "adds thoughts to answers"
    encode = tokenizer.encoder.as_transformers().encode
    counts = [len(encode(each, add_special_tokens=False)) for each in pieces]
    if is_own:
        # What stands before the first question is tokenized by itself, too.
        start = pieces[0].removesuffix(pieces[2])
        if before and tokenizer.render_chats([(before, NO_INPUTS)]) != [start]:
            return "renders a system message differently where others follow"
        counts[0] = len(encode(start, add_special_tokens=False)) + counts[2]
    expected = b"".join(bytes([i % 2]) * size for i, size in enumerate(counts))
    if tokenizer.mark_chats([(chat, NO_INPUTS)], tokenizer.encoder.locate) != [expected]:
        return "has marks, or tokens that merge, where an answer begins or ends"
    return ""


_HOLE = "{{content}}"


def check_slots(name: str | None) -> None:
    """Raise InputError if LLaMA-Factory, which renders a chat with slots that it reads out of the
    tokenizer's own chat template, gets another text than the template renders.

    Source: `parse_template` in src/llamafactory/data/template.py of LLaMA-Factory 0.9.5.

    Args:
        name: the tokenizer, as `profile` takes it.
    """
    loaded = load_tokenizer(BUILTIN if name is None else name)
    own = loaded.encoder.as_transformers()
    try:
        slots = _Slots(own)
        chats = (["", " a ", " b ", " c ", " d "], [" s ", " a ", " b ", " c ", " d "])
        agree = all(slots.join(chat) == _rendered(own, chat) for chat in chats)
    except Exception:  # a template may raise anything, which check_turns says
        return
    if not agree:
        raise InputError(
            f"the chat template of tokenizer {loaded.name!r} gives LLaMA-Factory, which reads the "
            f"texts around messages out of it, others than it renders: set template, or {REMEDY}"
        )


class _Slots:
    """The texts around the contents of messages, as LLaMA-Factory finds them."""

    def __init__(self, tokenizer: Any) -> None:
        """Render messages of a hole, and subtract what stands before them."""
        self._prefix = str(tokenizer.decode(tokenizer.encode("")))
        start = len(self._prefix)
        self._system = _rendered(tokenizer, [_HOLE])[start:]
        asked = _rendered(tokenizer, ["", _HOLE], prompt=True)
        empty = [{"role": "system", "content": ""}, {"role": "user", "content": _HOLE}]
        without = tokenizer.apply_chat_template(empty, tokenize=False, add_generation_prompt=True)
        answered = _rendered(tokenizer, ["", _HOLE, _HOLE])[len(asked) :]
        self._user, without = asked[start:], without[start:]
        self._default = ""
        if len(self._user) > len(without):
            self._default = self._system.replace(_HOLE, _added(without, self._user), 1)
            self._user = self._user[len(self._default) :]
        thoughtless = answered.replace("<think>", "").replace("</think>", "")
        self._answer = thoughtless.lstrip("\n")

    def join(self, contents: list[str]) -> str:
        """Return a chat: the contents of its system message, or an empty one, and of its turns."""
        said, *turns = contents
        first = self._system.replace(_HOLE, said, 1) if said else self._default
        slots = [self._user, self._answer] * (len(turns) // 2)
        filled = [slot.replace(_HOLE, each, 1) for slot, each in zip(slots, turns, strict=True)]
        return self._prefix + first + "".join(filled)


def _rendered(tokenizer: Any, contents: list[str], prompt: bool = False) -> str:
    """Return a chat of system, user, assistant, user and assistant; empty contents are left out."""
    roles = ("system", "user", "assistant", "user", "assistant")
    pairs = zip(roles, contents, strict=False)
    chat = [{"role": role, "content": each} for role, each in pairs if each]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt))


def _added(short: str, long: str) -> str:
    """Return the characters of a text between those that a shorter one has in the same sequence."""
    rest = iter(long)
    return "".join("".join(takewhile(each.__ne__, rest)) for each in short)
