"""What is known of chats only by reading them: those that some trainers do not take as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from batchstat.corpus.chat import WRITTEN_ROLE, Message
from batchstat.corpus.content import Chats
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints
from batchstat.profiling.profile import Profile

if TYPE_CHECKING:
    from batchstat.corpus.reader import Block

_TURNS = ("user", "assistant")


@dataclass(frozen=True)
class ChatRows:
    """How many records the files of a corpus have, and which chats some trainers drop, change or
    refuse.

    Attributes:
        sizes: records of each file, in order.
        out_of_turn: (n,) records of chats in which user and assistant do not take turns. They do
            if, after an optional system message, the user (in ShareGPT's format human) is first,
            the assistant (gpt) is last, and they alternate.
        indented: number of chats in which an answer begins with whitespace.
        with_tools: location of the first chat with calls of tools or their results; empty if there
            is no such chat.
        empty_system: location of the first chat that begins with an empty system message; empty if
            there is no such chat.
    """

    sizes: tuple[int, ...]
    out_of_turn: Ints
    indented: int
    with_tools: str
    empty_system: str


def chat_rows(profile: Profile) -> ChatRows:
    """Read the files of a profile again, and look for chats that some trainers drop, change or
    refuse.

    Raises:
        InputError: they cannot be read again, or have blank lines: other readers skip these, so
            that records would have other numbers there.
    """
    sources = profile.corpus.sources
    if any(source.is_standard_input for source in sources):
        raise InputError("standard input cannot be read again", "save the corpus to a file")
    return _read_again(sources, profile.corpus.options)


@lru_cache(maxsize=4)
def _read_again(sources: tuple[Source, ...], options: CorpusOptions) -> ChatRows:
    """Read files, and return what their chats have; the last results are kept, since several checks
    ask for the same files.
    """
    # Imported here because it loads a library for every format of files.
    from batchstat.corpus.reader import CorpusReader

    reader = CorpusReader(splits_of(sources, options), options)
    out_of_turn: list[Ints] = [np.zeros(0, dtype=np.int64)]
    with_tools, empty_system, indented = "", "", 0
    for block in reader.blocks():
        if not isinstance(block.content, Chats):
            continue
        chats = block.content
        in_block = [i for i, chat in enumerate(chats.messages) if not _takes_turns(chat)]
        # Records of a block are numbered within its split; `before` counts those of earlier splits.
        out_of_turn.append(block.reading.before + block.records[in_block])
        indented += sum(map(_is_indented, chats.messages))
        # The first such chat of the corpus: later blocks are searched only while there is none.
        with_tools = with_tools or _first_location(block, chats, _has_tools)
        empty_system = empty_system or _first_location(block, chats, _has_empty_system)
    sizes: list[int] = []  # records of each file, which are added up over its splits
    for split, reading in zip(reader.splits, reader.readings, strict=True):
        if reading.blank:
            raise InputError(f"{split.source.shown} has blank lines", "remove them")
        if split.first == 0:  # the first split of a file
            sizes.append(0)
        sizes[-1] += reading.records
    return ChatRows(tuple(sizes), np.concatenate(out_of_turn), indented, with_tools, empty_system)


def _first_location(block: "Block", chats: Chats, holds: Callable[[list[Message]], object]) -> str:
    """Return the location of the first chat of a block for which `holds` is true; empty if there
    is no such chat.
    """
    return next(
        (str(block.location(i)) for i, chat in enumerate(chats.messages) if holds(chat)), ""
    )


def _has_empty_system(chat: list[Message]) -> bool:
    return chat[0]["role"] == "system" and not chat[0]["content"]


def _takes_turns(chat: list[Message]) -> bool:
    """Return whether user and assistant alternate, after an optional system message, and the
    assistant has the last word.
    """
    # A role that the file names by another word, such as function_call, breaks turns.
    roles = ["" if WRITTEN_ROLE in message else message["role"] for message in chat]
    turns = roles[1:] if roles[0] == "system" else roles
    expected = [_TURNS[i % 2] for i in range(len(turns))]
    return bool(turns) and len(turns) % 2 == 0 and turns == expected


def _is_indented(chat: list[Message]) -> bool:
    answers = (message["content"] or "" for message in chat if message["role"] == "assistant")
    return any(answer[:1].isspace() for answer in answers)


def _has_tools(chat: list[Message]) -> bool:
    """Return whether a chat has results of tools, or calls of them, in any of the formats."""
    return any(
        message["role"] in ("tool", "function", "ipython")  # ipython: Llama 3
        or message.get("tool_calls")
        or message.get(WRITTEN_ROLE) == "function_call"  # ShareGPT
        for message in chat
    )
