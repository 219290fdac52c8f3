"""Which tokens of chats carry loss where only the assistants' turns do.

A chat template may mark these turns by `{% generation %}`. Otherwise the turn of message i is found
by two renderings: of the messages before it, with the generation prompt, and of the messages up to
it. The turn is what the second text has more than the first. Both must be beginnings of the text of
the whole chat. They are not where a template renders a message differently because of later ones:
then it is ambiguous which tokens are trained, and TemplateError is raised.
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
"""For each turn, its first character in a text and one past its last."""


@dataclass(frozen=True, eq=False)
class AssistantTurns:
    """Finds the assistants' turns in chats that one template renders.

    Attributes:
        template: the chat template.
    """

    template: ChatTemplate

    def mark(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return a mask of each chat: 1 for a token of an assistant's turn, and 0 for others.

        Args:
            chats: the messages of each chat.
            inputs: what the template gets beside the messages, the same for all of these chats.
            locate: returns the tokens of texts with their characters.

        Raises:
            TemplateError: the template has no marks, and it is ambiguous what a turn adds.
        """
        if self.template.has_marks:
            return self._mask_by_marks(chats, inputs, locate)
        texts, turns = self._find_turns(chats, inputs)
        encoded = locate(texts)
        return [mask_tokens(tokens_of(encoded, i), ranges) for i, ranges in enumerate(turns)]

    def split(
        self, chats: list[list[Message]], inputs: TemplateInputs, prompt_sizes: list[int]
    ) -> list[tuple[str, str]]:
        """Return the text of the prompt of each chat, and the text of the whole chat.

        The prompt is the first messages of a chat, and the generation prompt after them.

        Args:
            chats: the messages of each chat.
            inputs: what the template gets beside the messages, the same for all of these chats.
            prompt_sizes: the number of messages in the prompt of each chat.
        """
        # Parts do not give the text of an empty prompt: in the first part, what the template writes
        # before all messages is not separated from the first message.
        parts = None if 0 in prompt_sizes else self._parts(chats, inputs)
        if parts is not None:
            return [
                ("".join(chat_parts[:n]) + self._prompt, "".join(chat_parts))
                for chat_parts, n in zip(parts, prompt_sizes, strict=True)
            ]
        prompt_messages = [chat[:n] for chat, n in zip(chats, prompt_sizes, strict=True)]
        prompts = self.template.render(prompt_messages, inputs, generation_prompt=True)
        return list(zip(prompts, self.template.render(chats, inputs), strict=True))

    def _parts(self, chats: list[list[Message]], inputs: TemplateInputs) -> list[list[str]] | None:
        """Cut the text of each chat after each of its messages, by one rendering.

        A chat has one part for each message, and a last part with what follows them. Returns None
        if the template may render a message differently because of others, or if a chat has the
        character that marks the cuts.
        """
        # Settings, such as enable_thinking, may change the generation prompt, and `_prompt` is the
        # one without settings.
        if self._with_edges is None or inputs.settings:
            return None
        parts = [text.split(EDGE) for text in self._with_edges.render(chats, inputs)]
        # One part for each message and a rest are expected; more, if a chat has the character.
        valid = all(len(texts) == len(chat) + 1 for texts, chat in zip(parts, chats, strict=True))
        return parts if valid else None

    def _mask_by_marks(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return a mask of each chat by the template's `{% generation %}` marks.

        If possible, a changed template writes characters around what it marks. Its ordinary
        rendering is faster than the way in which transformers finds marks.
        """
        if self._with_characters is not None:
            rendered = [find_marked(text) for text in self._with_characters.render(chats, inputs)]
            # If a chat has such a character itself, it is not known what is marked in it: then
            # transformers renders all chats.
            known = [each for each in rendered if each is not None]
            if len(known) == len(chats):
                encoded = locate([text for text, _ in known])
                return [
                    mask_marked(tokens_of(encoded, i), ranges)
                    for i, (_, ranges) in enumerate(known)
                ]
        return [bytes(mask) for mask in self.template.mask(chats, inputs, locate)]

    def _find_turns(
        self, chats: list[list[Message]], inputs: TemplateInputs
    ) -> tuple[list[str], list[_Turns]]:
        """Return the text of each chat, and the assistants' turns in it.

        The template has no marks: turns are found by what messages add to the text.
        """
        # For each chat, which of its messages are an assistant's.
        positions = [
            [i for i, message in enumerate(chat) if message["role"] == "assistant"]
            for chat in chats
        ]
        # A first message has no text before it to compare with.
        if any(indices and indices[0] == 0 for indices in positions):
            raise TemplateError(f"it begins with an assistant: {_REMEDY}")
        if any(positions) and not self._separates_turns:
            raise TemplateError(
                f"the chat template has neither marks nor a generation prompt: {_REMEDY}"
            )
        # One rendering is enough where the template shows the edges of messages.
        if (parts := self._parts(chats, inputs)) is not None:
            turns = list(map(self._turns_of_parts, parts, positions))
            return ["".join(chat_parts) for chat_parts in parts], turns
        texts = self.template.render(chats, inputs)
        return texts, self._turns_of_beginnings(chats, inputs, texts, positions)

    def _turns_of_parts(self, parts: list[str], positions: list[int]) -> _Turns:
        """Return the assistants' turns of one chat.

        A turn is the text of its message after the generation prompt with which it begins.

        Args:
            parts: the parts of the text that `_parts` returns, one for each message, and a rest.
            positions: which messages are an assistant's; never the first one.
        """
        ends = list(accumulate(map(len, parts)))  # where each part ends in the text
        for i in positions:
            # The template introduces this answer in another way than by the generation prompt.
            if not parts[i].startswith(self._prompt):
                raise TemplateError(_differs(i))
        # The generation prompt follows the end of the message before.
        return [(ends[i - 1] + len(self._prompt), ends[i]) for i in positions]

    def _turns_of_beginnings(
        self,
        chats: list[list[Message]],
        inputs: TemplateInputs,
        texts: list[str],
        positions: list[list[int]],
    ) -> list[_Turns]:
        """Return the turns of chats, found by two renderings for each turn.

        A turn is what the text of the messages up to it has more than the text of the messages
        before it, with the generation prompt.

        Args:
            chats: the messages of each chat.
            inputs: what the template gets beside them.
            texts: the text of each whole chat.
            positions: for each chat, which of its messages are an assistant's.
        """
        # One entry for each turn of all chats: its chat, the text of the chat, and its message.
        places = [
            (chat, text, i)
            for chat, text, indices in zip(chats, texts, positions, strict=True)
            for i in indices
        ]
        texts_before = self.template.render(
            [chat[:i] for chat, _, i in places], inputs, generation_prompt=True
        )
        # If a turn is the last message, the text up to it is that of the whole chat, and known.
        up_to_turn = [chat[: i + 1] for chat, _, i in places if i + 1 < len(chat)]
        texts_up_to = iter(self.template.render(up_to_turn, inputs))
        turns = []
        for (chat, text, i), before in zip(places, texts_before, strict=True):
            up_to = next(texts_up_to) if i + 1 < len(chat) else text
            if not (text.startswith(up_to) and up_to.startswith(before)):
                raise TemplateError(_differs(i))
            turns.append((len(before), len(up_to)))
        # Hand the turns of all chats, which are in one list, back to their chats.
        offsets = accumulate(map(len, positions), initial=0)
        return [turns[first:last] for first, last in pairwise(offsets)]

    @cached_property
    def _with_characters(self) -> ChatTemplate | None:
        """The template changed to write characters around what it marks; None if that fails."""
        source = with_characters(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _with_edges(self) -> ChatTemplate | None:
        """The template changed to write a character after each message; None if that fails."""
        source = with_edges(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _prompt(self) -> str:
        """The generation prompt: what the template adds to a chat when it is asked for one.

        Used only with a template whose syntax shows that it is the same for all chats.
        """
        query: list[list[Message]] = [[{"role": "user", "content": "?"}]]
        [without_prompt] = self.template.render(query, NO_INPUTS)
        [with_prompt] = self.template.render(query, NO_INPUTS, generation_prompt=True)
        return with_prompt.removeprefix(without_prompt)

    @cached_property
    def _separates_turns(self) -> bool:
        """Whether the template writes what introduces an answer, such as a role, before the turn:
        as a generation prompt, or at the end of the message before.

        Otherwise the role would be taken for a part of the answer.
        """
        # The answer is a word that is in no template. Each call below renders one chat.
        query, answer = {"role": "user", "content": "?"}, {"role": "assistant", "content": "zqxj"}
        try:
            without_prompt, with_prompt, answered = (
                *self.template.render([[query]], NO_INPUTS),
                *self.template.render([[query]], NO_INPUTS, generation_prompt=True),
                *self.template.render([[query, answer]], NO_INPUTS),
            )
        except Exception:  # a template that expects other contents may raise anything
            return False
        # What the answer adds to the question; "" if it changes how the question is rendered.
        added = answered[len(with_prompt) :] if answered.startswith(with_prompt) else ""
        # There is a generation prompt, or the answer follows the text of the question at once.
        return bool(without_prompt != with_prompt or added.lstrip().startswith("zqxj"))


def _differs(i: int) -> str:
    return f"the chat template renders message {i} differently without those after it: {_REMEDY}"
