"""Which tokens of chats carry loss where only what assistants say does, as axolotl finds it.

That is what changes in the text of a chat when a turn is replaced by another content, and then the
first token that ends a turn, if it follows closely.

Source: `_tokenize_single_prompt` and `_find_turn_from_text` of
src/axolotl/prompt_strategies/chat_template.py, axolotl 0.19.
"""

from bisect import bisect
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.tokenization.chats.chat_template import ChatTemplate, Locate, TemplateError
from batchstat.tokenization.token_positions import Tokens, tokens_of

_OTHERS = ("[[dummy_message]]", "zzdummymessagezz")
"""Contents without a common character at either edge: what a template writes there may be alike in
one of them only.
"""
_NEAR = 3
"""Tokens that may stand between a content and the token that ends its turn."""


@dataclass(frozen=True, eq=False)
class ContentTurns:
    """Finder of what assistants say in chats that one template renders.

    Attributes:
        template: the chat template.
        ends: tokens of which the first after a content is trained.
    """

    template: ChatTemplate
    ends: tuple[str, ...]

    def mark(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return 1 for each token that carries loss, and 0 for others, in chats that have the same
        inputs; `locate`: returns the tokens of their texts.

        Raises:
            TemplateError: a token that ends a turn is not one token.
        """
        places = [
            (number, chat, i)
            for number, chat in enumerate(chats)
            for i, message in enumerate(chat)
            if message["role"] == "assistant"
        ]
        changed = [
            [*chat[:i], {"role": "assistant", "content": other}, *chat[i + 1 :]]
            for _, chat, i in places
            for other in _OTHERS
        ]
        texts, rendered = (self.template.render(each, inputs) for each in (chats, changed))
        encoded = locate(texts)
        masks = [bytearray(len(tokens_of(encoded, i))) for i in range(len(chats))]
        for turn, (number, *_) in enumerate(places):
            text, tokens = texts[number], tokens_of(encoded, number)
            begin, end = _changed(text, rendered[len(_OTHERS) * turn : len(_OTHERS) * (turn + 1)])
            first, stop = tokens.overlapping(begin, end) if begin < end else (-1, -1)
            if first >= stop:
                first = stop = -1  # where axolotl looks for the end of a turn that it did not find
            else:
                masks[number][first:stop] = b"\1" * (stop - first)
            for ends in self._kinds_of_ends:
                if (position := _end_after(stop, text, tokens, ends)) is not None:
                    masks[number][position] = 1
        return list(map(bytes, masks))

    @cached_property
    def _kinds_of_ends(self) -> list[frozenset[str]]:
        """The tokens that end a turn and that the template writes, and the one that ends a
        sequence: the first of each kind is trained.
        """
        tokenizer = self.template.tokenizer
        eos = tokenizer.eos_token
        ends = [each for each in self.ends if each == eos or each in self.template.source]
        added = {each.content for each in tokenizer.added_tokens_decoder.values()}
        if missing := [each for each in ends if each not in added]:
            raise TemplateError(
                f"{missing[0]!r}, which ends a turn, is not an added token of the tokenizer: save "
                "the tokenizer with it, or name another with --turn-ends"
            )
        return [frozenset(ends), frozenset([eos] if eos else [])]


def _changed(text: str, others: list[str]) -> tuple[int, int]:
    """Return where a text differs from any of others."""
    begin, end = len(text), 0
    for other in others:
        limit = min(len(text), len(other))
        before = _shared(text, other, limit)
        begin = min(begin, before)
        end = max(end, len(text) - _shared(text[::-1], other[::-1], limit - before))
    return begin, end


def _shared(text: str, other: str, limit: int) -> int:
    """Return how many of the first `limit` characters two texts share before they differ."""
    return bisect(range(1, limit + 1), 0, key=lambda size: text[:size] != other[:size])


def _end_after(stop: int, text: str, tokens: Tokens, ends: frozenset[str]) -> int | None:
    """Return the position of the first token of some that stands near where a content stops."""
    chars = np.array(tokens.offsets, dtype=np.int64).reshape(-1, 2)

    def is_end(position: int) -> bool:
        begin, end = chars[position].tolist()
        return text[begin:end].strip() in ends

    if stop == -1:
        # axolotl begins with the last token then, and takes it for none.
        if len(chars) and is_end(-1):
            return None
        near = range(min(_NEAR, len(chars)))
    else:
        near = range(stop, min(stop + _NEAR + 1, len(chars)))
    return next(filter(is_end, near), None)
