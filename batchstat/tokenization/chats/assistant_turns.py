"""Which tokens of chats carry loss where only the assistants' turns do.

A chat template may mark these: `{% generation %}`. Otherwise an assistant's turn is what its
message adds to the text after the generation prompt, if the text before it and after it begins the
whole text. That is not so where a template renders a message differently because of later ones.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from batchstat.corpus.chat import NO_INPUTS, Message, TemplateInputs
from batchstat.tokenization.chats.chat_template import ChatTemplate, Locate, TemplateError
from batchstat.tokenization.chats.generation_marks import (
    find_marked,
    mask_marked,
    mask_tokens,
    with_characters,
)
from batchstat.tokenization.chats.message_edges import EDGE, with_edges
from batchstat.tokenization.token_positions import tokens_of

_REMEDY = "mark assistants' turns with {% generation %} in a --chat-template"

_Turns = list[tuple[int, int]]
"""Where turns begin and end in a text."""


@dataclass(frozen=True, eq=False)
class AssistantTurns:
    """Finder of the assistants' turns in chats that one template renders.

    Attributes:
        template: the chat template.
    """

    template: ChatTemplate

    def mark(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return 1 for each token of an assistant's turn, and 0 for others, in chats that have the
        same inputs; `locate`: returns the tokens of their texts.

        Raises:
            TemplateError: the template has no marks, and it is ambiguous what a turn adds.
        """
        if self.template.has_marks:
            return self._marked(chats, inputs, locate)
        texts, turns = self._turns(chats, inputs)
        encoded = locate(texts)
        return [mask_tokens(tokens_of(encoded, i), own) for i, own in enumerate(turns)]

    def split(
        self, chats: list[list[Message]], inputs: TemplateInputs, firsts: list[int]
    ) -> list[tuple[str, str]]:
        """Return the texts of the first messages of chats that have the same inputs, each with its
        generation prompt, and those of the whole chats.

        Args:
            chats: the chats.
            inputs: these inputs.
            firsts: number of the first messages of each.
        """
        parts = None if 0 in firsts else self._parts(chats, inputs)
        if parts is not None:
            return [
                ("".join(own[:n]) + self._prompt, "".join(own))
                for own, n in zip(parts, firsts, strict=True)
            ]
        begun = [chat[:n] for chat, n in zip(chats, firsts, strict=True)]
        prompts = self.template.render(begun, inputs, generation_prompt=True)
        return list(zip(prompts, self.template.render(chats, inputs), strict=True))

    def _parts(self, chats: list[list[Message]], inputs: TemplateInputs) -> list[list[str]] | None:
        """Return what each message of chats adds to their texts; None if that is not known."""
        # Settings, such as enable_thinking, may change the generation prompt.
        if self._with_edges is None or inputs.settings:
            return None
        parts = [text.split(EDGE) for text in self._with_edges.render(chats, inputs)]
        # A chat may have the character itself.
        is_known = all(len(own) == len(chat) + 1 for own, chat in zip(parts, chats, strict=True))
        return parts if is_known else None

    def _marked(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        if self._with_characters is not None:
            found = [find_marked(text) for text in self._with_characters.render(chats, inputs)]
            known = [each for each in found if each is not None]
            if len(known) == len(chats):
                encoded = locate([text for text, _ in known])
                return [
                    mask_marked(tokens_of(encoded, i), ranges)
                    for i, (_, ranges) in enumerate(known)
                ]
        return [bytes(mask) for mask in self.template.mask(chats, inputs, locate)]

    def _turns(
        self, chats: list[list[Message]], inputs: TemplateInputs
    ) -> tuple[list[str], list[_Turns]]:
        """Return the texts of chats, and where each assistant's turn begins and ends in them."""
        positions = [
            [i for i, message in enumerate(chat) if message["role"] == "assistant"]
            for chat in chats
        ]
        # There is no text before it of which its turn could be the rest.
        if any(found and found[0] == 0 for found in positions):
            raise TemplateError(f"it begins with an assistant: {_REMEDY}")
        if any(positions) and not self._separates_turns:
            raise TemplateError(
                f"the chat template has neither marks nor a generation prompt: {_REMEDY}"
            )
        if (parts := self._parts(chats, inputs)) is not None:
            found = [self._between(own, turns) for own, turns in zip(parts, positions, strict=True)]
            return ["".join(own) for own in parts], found
        texts = self.template.render(chats, inputs)
        return texts, self._by_beginnings(chats, inputs, texts, positions)

    def _between(self, parts: list[str], positions: list[int]) -> _Turns:
        """Return the turns of a chat by what each of its messages adds."""
        ends = list(accumulate(map(len, parts)))
        for i in positions:
            if not parts[i].startswith(self._prompt):
                raise TemplateError(_differs(i))
        return [(ends[i - 1] + len(self._prompt), ends[i]) for i in positions]

    def _by_beginnings(
        self,
        chats: list[list[Message]],
        inputs: TemplateInputs,
        texts: list[str],
        positions: list[list[int]],
    ) -> list[_Turns]:
        """Return the turns of chats by rendering what comes before each of them, and with it."""
        places = [
            (chat, text, i)
            for chat, text, found in zip(chats, texts, positions, strict=True)
            for i in found
        ]
        before = self.template.render(
            [chat[:i] for chat, _, i in places], inputs, generation_prompt=True
        )
        inside = [chat[: i + 1] for chat, _, i in places if i + 1 < len(chat)]
        after = iter(self.template.render(inside, inputs))
        turns = []
        for (chat, text, i), begun in zip(places, before, strict=True):
            ended = next(after) if i + 1 < len(chat) else text
            if not (text.startswith(ended) and ended.startswith(begun)):
                raise TemplateError(_differs(i))
            turns.append((len(begun), len(ended)))
        edges = accumulate(map(len, positions), initial=0)
        return [turns[first:last] for first, last in pairwise(edges)]

    @cached_property
    def _with_characters(self) -> ChatTemplate | None:
        """The template that writes characters around what it marks; None if there is none."""
        source = with_characters(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _with_edges(self) -> ChatTemplate | None:
        """The template that also writes where each message ends; None if there is none."""
        source = with_edges(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _prompt(self) -> str:
        """The generation prompt, if it is the same for all chats."""
        asked: list[list[Message]] = [[{"role": "user", "content": "?"}]]
        [alone] = self.template.render(asked, NO_INPUTS)
        [prompted] = self.template.render(asked, NO_INPUTS, generation_prompt=True)
        return prompted.removeprefix(alone)

    @cached_property
    def _separates_turns(self) -> bool:
        """Whether what begins an assistant's turn is rendered before it: as a generation prompt, or
        with the message before.
        """
        asked, answered = {"role": "user", "content": "?"}, {"role": "assistant", "content": "zqxj"}
        try:
            alone, before, after = (
                *self.template.render([[asked]], NO_INPUTS),
                *self.template.render([[asked]], NO_INPUTS, generation_prompt=True),
                *self.template.render([[asked, answered]], NO_INPUTS),
            )
        except Exception:  # a template that expects other contents may raise anything
            return False
        added = after[len(before) :].lstrip() if after.startswith(before) else ""
        return bool(alone != before or added.startswith("zqxj"))


def _differs(i: int) -> str:
    return f"the chat template renders message {i} differently without those after it: {_REMEDY}"
