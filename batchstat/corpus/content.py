"""What is counted of samples: texts, pairs of texts, chats, or lengths that are counted already."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.corpus.arrow_values import ranges
from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.lengths.arrays import Ints
from batchstat.storage.arrow_numbers import as_arrow, as_numpy

LONGEST = 10**9
"""Largest length that a column of lengths may have, in tokens: more is a mistake."""

_CHATS_TOGETHER = 1_000


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
        """Return (n,) bytes of each."""
        import pyarrow.compute as pc

        sizes: Ints = np.sum([as_numpy(pc.binary_length(side)) for side in self.sides], axis=0)
        return sizes

    def ranges(self, most_bytes: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield consecutive ranges of at most so many bytes and texts, or of one text."""
        return ranges(self.sizes(), most_bytes, most)

    def slice(self, first: int, stop: int) -> Self:
        """Return a range of them."""
        return type(self)(*(side.slice(first, stop - first) for side in self.sides))

    def select(self, samples: Ints) -> Self:
        """Return those at these positions, in ascending order."""
        if len(samples) == len(self):
            return self
        return type(self)(*(side.take(as_arrow(samples)) for side in self.sides))

    def to_list(self) -> list[Any]:
        """Return them as Python's texts, or pairs of texts."""
        texts: list[list[str]] = [side.to_pylist() for side in self.sides]
        return texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))


@dataclass(frozen=True, eq=False)
class Completions(Texts):
    """(n,) prompts, and the completions that follow them in the same texts."""

    def joined(self) -> pa.LargeStringArray:
        """Return (n,) prompts with their completions."""
        import pyarrow.compute as pc

        between = pa.scalar("", pa.large_string())
        return pc.binary_join_element_wise(self.first, self.second, between)

    def to_list(self) -> list[Any]:
        """Return each as a prompt, and the prompt with its completion."""
        return list(zip(self.first.to_pylist(), self.joined().to_pylist(), strict=True))


@dataclass(frozen=True, eq=False)
class Instructions(Texts):
    """(n,) prompts, and their completions, which are tokenized apart from them."""


@dataclass(frozen=True, eq=False)
class Chats:
    """(n,) chats, and what the template gets beside each: see `batchstat.corpus.chat`."""

    messages: list[list[Message]]
    inputs: list[TemplateInputs]

    def __len__(self) -> int:
        return len(self.messages)

    def ranges(self, _: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield consecutive ranges of at most so many chats, and at most 1,000."""
        size = min(most, _CHATS_TOGETHER)
        yield from ((at, min(at + size, len(self))) for at in range(0, len(self), size))

    def slice(self, first: int, stop: int) -> Self:
        """Return a range of them."""
        return type(self)(*(each[first:stop] for each in self._columns))

    def select(self, samples: Ints) -> Self:
        """Return those at these positions."""
        picked = samples.tolist()
        return type(self)(*([each[i] for i in picked] for each in self._columns))

    def to_list(self) -> list[Any]:
        """Return what is known of each: messages, template inputs, and what a subclass adds."""
        return list(zip(*self._columns, strict=True))

    @property
    def _columns(self) -> list[list[Any]]:
        return [getattr(self, each.name) for each in fields(self)]


@dataclass(frozen=True, eq=False)
class AssistantChats(Chats):
    """(n,) chats of which only the assistants' turns carry loss."""


@dataclass(frozen=True, eq=False)
class CompletionChats(Chats):
    """(n,) chats that begin with a prompt; the messages after it carry loss.

    Attributes:
        prompts: (n,) number of messages of each prompt.
    """

    prompts: list[int]


@dataclass(frozen=True, eq=False)
class PrecountedLengths:
    """(n,) tokens of samples that come with their lengths."""

    lengths: npt.NDArray[np.int64]

    def select(self, samples: Ints) -> "PrecountedLengths":
        """Return those at these positions."""
        return PrecountedLengths(self.lengths[samples])


Content = Texts | Chats | PrecountedLengths
