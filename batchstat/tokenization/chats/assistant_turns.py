"""Which tokens of chats carry loss where only the assistants' turns do. A template may mark these
by `{% generation %}`. Otherwise the turn of message i is what the text of the messages up to it has
more than that of those before it with the generation prompt. Both must begin the text of the whole
chat; where a template renders a message differently because of later ones, TemplateError is raised.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice

from batchstat.corpus.chat import NO_INPUTS, Message, TemplateInputs
from batchstat.tokenization.chats.chat_template import ChatTemplate, Locate, TemplateError
from batchstat.tokenization.chats.generation_marks import (
    find_marked,
    mask_marked,
    mask_tokens,
    with_begin_and_end,
)
from batchstat.tokenization.chats.message_edges import EDGE, with_edges
from batchstat.tokenization.token_positions import tokens_of

_REMEDY = "mark assistants' turns with {% generation %} in a --chat-template"

_Turns = list[tuple[int, int]]  # for each turn, its first character in a text and one past its last


@dataclass(frozen=True, eq=False)
class AssistantTurns:
    """Finds the assistants' turns in chats that one template renders."""

    template: ChatTemplate

    def mark(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return a mask of each chat, 1 for tokens of assistants' turns. Raises TemplateError."""
        if self.template.has_marks:
            return self._mask_by_marks(chats, inputs, locate)
        texts, turns = self._find_turns(chats, inputs)
        encoded = locate(texts)
        return [mask_tokens(tokens_of(encoded, i), ranges) for i, ranges in enumerate(turns)]

    def split(
        self, chats: list[list[Message]], inputs: TemplateInputs, prompt_sizes: list[int]
    ) -> list[tuple[str, str]]:
        """Return the text of each chat's prompt, generation prompt included, and its whole text."""
        # What the template writes before all messages is in the part of the first message, so that
        # the parts do not give the text of a prompt without messages.
        cut_texts = None if 0 in prompt_sizes else self._cut_texts(chats, inputs)
        if cut_texts is not None:
            return [
                ("".join(parts[:n]) + self._prompt, "".join(parts))
                for parts, n in zip(cut_texts, prompt_sizes, strict=True)
            ]
        # Without parts, each prompt is rendered as a chat of its own.
        prompt_messages = [chat[:n] for chat, n in zip(chats, prompt_sizes, strict=True)]
        prompts = self.template.render(prompt_messages, inputs, generation_prompt=True)
        return list(zip(prompts, self.template.render(chats, inputs), strict=True))

    def _cut_texts(
        self, chats: list[list[Message]], inputs: TemplateInputs
    ) -> list[list[str]] | None:
        """Return the text of each chat, cut after each of its messages, by one rendering."""
        # Callers use `_prompt`, which is rendered without settings: with some, such as
        # enable_thinking, the generation prompt may be another one.
        if self._with_edges is None or inputs.settings:
            return None
        cut_texts = [text.split(EDGE) for text in self._with_edges.render(chats, inputs)]
        # A chat with EDGE in its own text has more parts.
        pairs = zip(cut_texts, chats, strict=True)
        return cut_texts if all(len(parts) == len(chat) + 1 for parts, chat in pairs) else None

    def _mask_by_marks(
        self, chats: list[list[Message]], inputs: TemplateInputs, locate: Locate
    ) -> list[bytes]:
        """Return a mask of each chat by the template's `{% generation %}` marks."""
        # If possible, a changed template writes BEGIN and END around what it marks. Its ordinary
        # rendering is faster than the way in which transformers finds marks.
        if self._with_begin_and_end is not None:
            rendered = self._with_begin_and_end.render(chats, inputs)
            # The text of each chat with the ranges that are marked in it. It is None for a chat
            # that has BEGIN or END itself: then transformers renders all chats.
            texts_and_ranges = [each for each in map(find_marked, rendered) if each is not None]
            if len(texts_and_ranges) == len(chats):
                encoded = locate([text for text, _ in texts_and_ranges])
                return [
                    mask_marked(tokens_of(encoded, i), ranges)
                    for i, (_, ranges) in enumerate(texts_and_ranges)
                ]
        return [bytes(mask) for mask in self.template.mask(chats, inputs, locate)]

    def _find_turns(
        self, chats: list[list[Message]], inputs: TemplateInputs
    ) -> tuple[list[str], list[_Turns]]:
        """Return the text of each chat, and the assistants' turns in it."""
        # For each chat, the indices of the messages that are an assistant's.
        answer_indices = [
            [i for i, message in enumerate(chat) if message["role"] == "assistant"]
            for chat in chats
        ]
        # A first message has no text before it to compare with.
        if any(0 in indices for indices in answer_indices):
            raise TemplateError(f"it begins with an assistant: {_REMEDY}")
        if any(answer_indices) and not self._separates_turns:
            raise TemplateError(
                f"the chat template has neither marks nor a generation prompt: {_REMEDY}"
            )
        # One rendering is enough where the text can be cut after each message.
        cut_texts = self._cut_texts(chats, inputs)
        if cut_texts is not None:
            turns = list(map(self._turns_of_cut_text, cut_texts, answer_indices))
            return ["".join(parts) for parts in cut_texts], turns
        texts = self.template.render(chats, inputs)
        return texts, self._turns_by_two_renderings(chats, inputs, texts, answer_indices)

    def _turns_of_cut_text(self, parts: list[str], answer_indices: list[int]) -> _Turns:
        """Return the assistants' turns of one chat."""
        # The part of such a message begins with the generation prompt; the rest is the turn.
        ends = list(accumulate(map(len, parts)))  # where each part ends in the text
        for i in answer_indices:
            # With another beginning, it is not known where the turn begins in the part.
            if not parts[i].startswith(self._prompt):
                raise TemplateError(_differs(i))
        # Part i begins where part i - 1 ends.
        return [(ends[i - 1] + len(self._prompt), ends[i]) for i in answer_indices]

    def _turns_by_two_renderings(
        self,
        chats: list[list[Message]],
        inputs: TemplateInputs,
        texts: list[str],
        answer_indices: list[list[int]],
    ) -> list[_Turns]:
        """Return the turns of each chat, found by two renderings for each turn."""
        # One entry for each turn of all chats: its chat, the text of the chat, and the index of its
        # message. All chats are rendered in two calls, in the sequence of these entries.
        entries = [
            (chat, text, i)
            for chat, text, indices in zip(chats, texts, answer_indices, strict=True)
            for i in indices
        ]
        before_turn = [chat[:i] for chat, _, i in entries]
        texts_before = self.template.render(before_turn, inputs, generation_prompt=True)
        # A turn that is the last message is not rendered here: the text up to it is the whole text.
        up_to_turn = [chat[: i + 1] for chat, _, i in entries if i + 1 < len(chat)]
        texts_up_to = iter(self.template.render(up_to_turn, inputs))
        turns = []
        for (chat, text, i), before in zip(entries, texts_before, strict=True):
            up_to = next(texts_up_to) if i + 1 < len(chat) else text
            if not (text.startswith(up_to) and up_to.startswith(before)):
                raise TemplateError(_differs(i))
            turns.append((len(before), len(up_to)))
        # Give each chat as many of all turns as it has answers.
        turns_left = iter(turns)
        return [list(islice(turns_left, len(indices))) for indices in answer_indices]

    @cached_property
    def _with_begin_and_end(self) -> ChatTemplate | None:
        source = with_begin_and_end(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _with_edges(self) -> ChatTemplate | None:
        source = with_edges(self.template.source)
        return None if source is None else replace(self.template, source=source)

    @cached_property
    def _prompt(self) -> str:
        query: list[list[Message]] = [[{"role": "user", "content": "?"}]]
        [without_prompt] = self.template.render(query, NO_INPUTS)
        [with_prompt] = self.template.render(query, NO_INPUTS, generation_prompt=True)
        return with_prompt.removeprefix(without_prompt)

    @cached_property
    def _separates_turns(self) -> bool:
        """Whether the template writes what introduces an answer before the turn."""
        # The answer is a word that is in no template.
        query, answer = {"role": "user", "content": "?"}, {"role": "assistant", "content": "zqxj"}
        try:
            [asked] = self.template.render([[query]], NO_INPUTS)
            [with_prompt] = self.template.render([[query]], NO_INPUTS, generation_prompt=True)
            [answered] = self.template.render([[query, answer]], NO_INPUTS)
        except Exception:  # a template that expects other contents may raise anything
            return False
        if with_prompt != asked:  # there is a generation prompt
            return True
        # Without one, the answer must follow the text of the question at once.
        return answered.startswith(asked) and answered[len(asked) :].lstrip().startswith("zqxj")


def _differs(i: int) -> str:
    return f"the chat template renders message {i} differently without those after it: {_REMEDY}"
