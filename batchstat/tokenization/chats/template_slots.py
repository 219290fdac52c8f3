"""Whether the slots that a trainer reads out of a chat template give what the template renders."""

from itertools import takewhile
from typing import Any

from batchstat.errors import InputError
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.chats.turns_apart import REMEDY
from batchstat.tokenization.loading.load import load_tokenizer

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
