"""What is counted of samples: texts, pairs of texts, chats, or lengths that are counted already."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa

from batchstat.corpus.arrow_values import ranges_within
from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.lengths.arrays import Ints, gather_groups
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

LONGEST = 10**9  # largest length that a column of lengths may have, in tokens: more is a mistake


@dataclass(frozen=True, eq=False)
class Texts:
    """(n,) texts, or pairs of texts if there is a `second`, as large_string without nulls."""

    first: pa.LargeStringArray
    second: pa.LargeStringArray | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def sides(self) -> list[pa.LargeStringArray]:
        """The texts, or the first and the second texts of pairs."""
        return [self.first] if self.second is None else [self.first, self.second]

    def sizes(self) -> Ints:
        """Return (n,) bytes of each text, or of both texts of each pair."""
        import pyarrow.compute as pc

        sizes: Ints = np.sum([as_numpy(pc.binary_length(side)) for side in self.sides], axis=0)
        return sizes

    def ranges(self, most_bytes: int, most_texts: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of at most so many bytes and texts, as `ranges_within` does."""
        return ranges_within(self.sizes(), most_bytes, most_texts)

    def slice(self, first: int, stop: int) -> Self:
        """Return the texts from `first` to before `stop`."""
        return type(self)(*(side.slice(first, stop - first) for side in self.sides))

    def select(self, samples: Ints) -> Self:
        """Return the texts at these positions, which ascend."""
        if len(samples) == len(self):  # so these are all positions
            return self
        return type(self)(*(side.take(as_arrow(samples)) for side in self.sides))

    def to_list(self) -> list[Any]:
        """Return the texts as Python's, or a tuple of two for each pair."""
        texts: list[list[str]] = [side.to_pylist() for side in self.sides]
        return texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))


@dataclass(frozen=True, eq=False)
class Completions(Texts):
    """(n,) prompts, and their completions, tokenized together, as one text."""

    def joined(self) -> pa.LargeStringArray:
        """Return (n,) texts, of a prompt and its completion each."""
        import pyarrow.compute as pc

        separator = pa.scalar("", pa.large_string())
        return pc.binary_join_element_wise(self.first, self.second, separator)

    def to_list(self) -> list[Any]:
        """Return for each sample its prompt, and the text of its prompt and completion."""
        return list(zip(self.first.to_pylist(), self.joined().to_pylist(), strict=True))


@dataclass(frozen=True, eq=False)
class Chats:
    """(n,) chats, and what the chat template gets beside the messages of each."""

    messages: list[list[Message]]
    inputs: list[TemplateInputs]

    def __len__(self) -> int:
        return len(self.messages)

    def ranges(self, _: int, most_chats: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of at most so many chats, and 1,000; the limit for bytes is not used."""
        # Their bytes are not known.
        size = min(most_chats, 1_000)
        yield from ((first, min(first + size, len(self))) for first in range(0, len(self), size))

    def slice(self, first: int, stop: int) -> Self:
        """Return the chats from `first` to before `stop`."""
        return type(self)(*(column[first:stop] for column in self._columns))

    def select(self, samples: Ints) -> Self:
        """Return the chats at these positions."""
        positions = samples.tolist()
        return type(self)(*([column[i] for i in positions] for column in self._columns))

    def to_list(self) -> list[Any]:
        """Return a tuple for each chat: messages, template inputs, and what a subclass adds."""
        return list(zip(*self._columns, strict=True))

    @property
    def _columns(self) -> list[list[Any]]:
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, eq=False)
class AssistantChats(Chats):
    """(n,) chats of which only the assistants' turns carry loss."""


@dataclass(frozen=True, eq=False)
class CompletionChats(Chats):
    """(n,) chats that begin with a prompt; the messages after it carry loss."""

    prompts: list[int]


@dataclass(frozen=True, eq=False)
class PrecountedLengths:
    """(n,) lengths that the corpus has itself, so that no text is tokenized."""

    lengths: Ints

    def select(self, samples: Ints) -> "PrecountedLengths":
        """Return the lengths at these positions."""
        return PrecountedLengths(self.lengths[samples])


@dataclass(frozen=True, eq=False)
class Words:
    """(n,) lists of words, each of which is tokenized by itself."""

    words: pa.LargeStringArray
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def select(self, samples: Ints) -> "Words":
        """Return the lists at these positions."""
        offsets, positions = gather_groups(self.offsets, samples)
        return Words(self.words.take(as_arrow(positions)), offsets)


Content = Texts | Chats | Words | PrecountedLengths
