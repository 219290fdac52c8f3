"""Which tokens of chats carry loss where only what assistants say does, as axolotl finds it.

For each assistant's turn, axolotl renders the chat again with another content in that turn. What
changes in the text is the content of the turn. The first token after it that ends a turn is trained
as well, if it follows closely.

Source: `_tokenize_single_prompt` and `_find_turn_from_text` of
src/axolotl/prompt_strategies/chat_template.py, axolotl 0.19.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.tokenization.chats.chat_template import ChatTemplate, Locate, TemplateError
from batchstat.tokenization.chats.prompts import n_shared
from batchstat.tokenization.token_positions import Tokens, tokens_of

_OTHERS = ("[[dummy_message]]", "zzdummymessagezz")
"""The other contents. A content that begins or ends with the same character as one of them seems to
change less than all of itself; the two have different characters at both edges, so the larger
change is right.
"""
_NEAR = 3
"""Tokens that may stand between a content and the token that ends its turn."""


@dataclass(frozen=True, eq=False)
class ContentTurns:
    """Finds what assistants say in chats that one template renders.

    Attributes:
        template: the chat template.
        ends: tokens that end a turn; the first of them after a content is trained.
    """

    template: ChatTemplate
    ends: tuple[str, ...]

    def mark(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return a mask of each chat: 1 for a token that carries loss, and 0 for others.

        Args:
            chats: the messages of each chat.
            inputs: what the template gets beside the messages, the same for all of these chats.
            locate: returns the tokens of texts with their characters.

        Raises:
            TemplateError: a token that ends a turn is not one token.
        """
        # Each assistant's turn: the index of its chat, and that of its message in the chat.
        turns = [
            (c, i)
            for c, chat in enumerate(chats)
            for i, message in enumerate(chat)
            if message["role"] == "assistant"
        ]
        # For each turn two changed chats, one after the other: one with each other content.
        changed_chats = [
            [*chats[c][:i], {"role": "assistant", "content": other}, *chats[c][i + 1 :]]
            for c, i in turns
            for other in _OTHERS
        ]
        texts = self.template.render(chats, inputs)
        changed_texts = iter(self.template.render(changed_chats, inputs))
        encoded = locate(texts)
        masks = [bytearray(len(tokens_of(encoded, c))) for c in range(len(chats))]
        for c, _ in turns:
            text, tokens = texts[c], tokens_of(encoded, c)
            # The content is where the text differs from the two with another content in this turn.
            begin, end = _changed_range(text, list(islice(changed_texts, len(_OTHERS))))
            first, stop = tokens.overlapping(begin, end) if begin < end else (-1, -1)
            if first < stop:
                masks[c][first:stop] = b"\1" * (stop - first)
            else:  # the content is empty, is not written, or has no token
                stop = -1  # axolotl then looks for the end of the turn from here
            for ends in self._sets_of_ends:
                if (position := _end_after(stop, text, tokens, ends)) is not None:
                    masks[c][position] = 1
        return list(map(bytes, masks))

    @cached_property
    def _sets_of_ends(self) -> list[frozenset[str]]:
        """Two sets of tokens: the `ends` that the template writes, and only the token that ends a
        sequence (eos). Of each set, the token that comes first after a content is trained.
        """
        tokenizer = self.template.tokenizer
        eos = tokenizer.eos_token
        # A template may write eos by the name `eos_token`, so that the token is not in its source.
        ends = [end for end in self.ends if end == eos or end in self.template.source]
        added = {token.content for token in tokenizer.added_tokens_decoder.values()}
        if missing := [end for end in ends if end not in added]:
            raise TemplateError(
                f"{missing[0]!r}, which ends a turn, is not an added token of the tokenizer: save "
                "the tokenizer with it, or name another with --turn-ends"
            )
        return [frozenset(ends), frozenset([eos] if eos else [])]


def _changed_range(text: str, others: list[str]) -> tuple[int, int]:
    """Return the range of a text outside which it equals each of the other texts.

    `a cat!` and `a dog!` -> (2, 5). If all texts are equal, the begin is after the end or at it.
    """
    begin, end = len(text), 0
    for other in others:
        n_before = n_shared(text, other)
        # A character that is shared before the difference is not shared after it, too.
        n_after = n_shared(text[n_before:][::-1], other[n_before:][::-1])
        begin, end = min(begin, n_before), max(end, len(text) - n_after)
    return begin, end


def _end_after(stop: int, text: str, tokens: Tokens, ends: frozenset[str]) -> int | None:
    """Return the position of the first token that ends a turn, near where its content stops.

    Args:
        stop: one past the last token of the content; -1 if axolotl did not find it.
        text: the text of the chat.
        tokens: its tokens.
        ends: the texts of tokens that end a turn.

    Returns:
        None if there is no such token near.
    """
    chars = np.array(tokens.offsets, dtype=np.int64).reshape(-1, 2)

    def is_end(position: int) -> bool:
        begin, end = chars[position].tolist()
        return text[begin:end].strip() in ends

    if stop == -1:
        # axolotl then searches the indices from -1 to -1 + _NEAR. In Python, -1 is the last token:
        # if that is an end, axolotl finds it at -1, which it takes for "no token".
        if len(chars) and is_end(-1):
            return None
        near = range(min(_NEAR, len(chars)))
    else:
        near = range(stop, min(stop + _NEAR + 1, len(chars)))
    return next(filter(is_end, near), None)
