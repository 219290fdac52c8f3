"""`Tokenizer`: a tokenizer with its name, its digest and its batch calls."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.corpus.content import (
    AssistantChats,
    Chats,
    CompletionChats,
    Completions,
    Instructions,
    Texts,
)
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.tokenization.chats.chat_template import Locate
from batchstat.tokenization.chats.prompts import count_completions
from batchstat.tokenization.counting.count_check import MiscountError, counting_after
from batchstat.tokenization.counting.panics import panics_as_errors
from batchstat.tokenization.encoder import Encoder

TOGETHER_BYTES = 8 << 20
"""Texts that are cut into pieces, or counted by the engine, together: many pieces repeat in them,
and their ids fit in memory. The same for both, for which way counts depends on how long the engine
takes to load, and which texts are checked must not."""
_BATCH_BYTES = 4 << 20
# 10,000 at a time took 5 to 8 % longer on Chinese, with qwen2 and t5.
_BATCH_SAMPLES = 2_500

Encode = Callable[[list[Any]], Iterable[Sized]]
"""Converts texts, or pairs, to one sized object each."""

OnError = Callable[[int, Exception], None]
"""Called with a sample on which the tokenizer raised: its position and the exception."""


class Counted(NamedTuple):
    """Tokens of n samples.

    Attributes:
        tokens: (n,) tokens of each.
        samples: positions of those that could be counted.
        kinds: tokens of each kind that is known; none of samples that could not be counted.
    """

    tokens: Ints
    samples: Ints
    kinds: Mapping[str, TokenRanges] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer as batchstat uses it: truncation and padding off, special tokens added.

    Attributes:
        name: as the user wrote it.
        define: returns everything about it that can change a count, as text: its settings, its
            state, and its chat template if one is used.
        special_tokens_per_sample: tokens of an empty text.
        special_tokens_per_pair: tokens of a pair of empty texts.
        max_length: its `model_max_length`, in tokens; None if it has none.
        library: library that counts, with its version.
        load: returns what counts; called once, when something is counted.
        made_by: a function and its arguments that build it again, in another process too.
        render_chats: returns the texts of chats with their template inputs; None without a chat
            template.
        mark_chats: returns 1 for each token of a chat that an assistant's turn has, and 0 for
            others, given what locates tokens; None without a chat template.
        split_chats: returns the texts of the prompts of chats, with their inputs and the number of
            messages of the prompt, and the texts of the whole chats.
        left_out: returns what the template leaves out of a chat with its inputs: see
            `TemplateCoverage`.
        count_instructions: returns the tokens of completions that are tokenized apart from their
            prompts: see `instructions`; None where they are tokenized together.
    """

    name: str
    define: Callable[[], str]
    special_tokens_per_sample: int
    special_tokens_per_pair: int
    max_length: int | None
    library: str
    load: Callable[[], Encoder]
    made_by: tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]
    render_chats: Callable[[list[Any]], list[str]] | None = None
    mark_chats: Callable[[list[Any], Locate], list[bytes]] | None = None
    split_chats: Callable[[list[Any]], list[tuple[str, str]]] | None = None
    left_out: Callable[[list[Message], TemplateInputs], Collection[str]] | None = None
    count_instructions: Callable[[Encode, list[Any]], Ints] | None = None

    def __reduce__(self) -> tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]:
        return self.made_by

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text that `define` returns, in hexadecimal after `sha256:`."""
        return f"sha256:{hashlib.sha256(self.define().encode()).hexdigest()}"

    @cached_property
    def encoder(self) -> Encoder:
        """What counts, loaded when it is first asked for."""
        return self.load()

    @property
    def has_shortcuts(self) -> bool:
        """Whether texts may be counted faster than by the tokenizer itself."""
        return self.encoder.engine is not None or self.encoder.pieces is not None

    def cannot_count(self, error: Exception) -> str:
        """Return the message for a text on which the tokenizer raises an exception."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"tokenizer {self.name!r} cannot count it: {reason[:200]}"

    def without_shortcuts(self) -> "Tokenizer":
        """Return it such that the tokenizer itself counts every text."""
        return replace(self, load=self.encoder.without_shortcuts)

    def expect(self, bytes_: int) -> None:
        """Announce how much text will come, in bytes, so that the fast engine is loaded early."""
        texts = self.encoder if self.render_chats is None else self.encoder.rendered
        if texts.engine is not None:
            texts.engine.expect(bytes_)

    def count(
        self,
        content: Texts | Chats,
        on_error: OnError | None = None,
        left_out: Counter[str] | None = None,
    ) -> "Counted":
        """Return the tokens of each sample.

        An exception that the tokenizer raises is passed to `on_error` with the position of its
        sample, or propagates if there is no `on_error`. `left_out` counts the chats that the
        template does not render completely, by what it leaves out.

        Raises:
            MiscountError: see `EngineCounter.count` and `PieceCounter.count`.
        """
        if isinstance(content, Chats):
            return self._count_chats(content, on_error, Counter() if left_out is None else left_out)
        encoder = self.encoder
        measure, has_prompts = encoder.count, isinstance(content, Completions | Instructions)
        if isinstance(content, Instructions):
            assert self.count_instructions is not None, "it was prepared for them before"
            measure = partial(self.count_instructions, encoder.encode)
        elif has_prompts:
            measure = partial(count_completions, encoder.encode)
        found: Ints = np.full((len(content), 2) if has_prompts else len(content), -1, np.int64)
        for first, last in content.ranges(TOGETHER_BYTES, len(content)):
            samples, counted = content.slice(first, last), None
            with counting_after(first):
                if isinstance(samples, Completions):
                    counted = encoder.count_completions_faster(samples.first, samples.joined())
                elif not has_prompts:
                    counted = encoder.count_faster(samples.first, samples.second)
            if counted is None:
                self._measure(measure, samples, found[first:last], first, on_error)
            else:
                found[first:last] = counted
        return _counted(found)

    def _count_chats(
        self, chats: Chats, on_error: OnError | None, left_out: Counter[str]
    ) -> "Counted":
        if isinstance(chats, AssistantChats):
            counted = self._count_marked(chats, on_error)
        else:
            is_split = isinstance(chats, CompletionChats)
            if is_split and self.split_chats is None:
                raise InputError(
                    "prompts are chats, but those that came first, or standard input, were taken "
                    "for texts: pass files that have chats only"
                )
            measure = self._measure_split if is_split else self._measure_rendered
            found: Ints = np.full((len(chats), 2) if is_split else len(chats), -1, np.int64)
            self._measure(measure, chats, found, 0, on_error)
            counted = _counted(found)
        if self.left_out is not None:
            for i in counted.samples.tolist():
                left_out.update(self.left_out(chats.messages[i], chats.inputs[i]))
        return counted

    def _measure_rendered(self, chats: list[Any]) -> Ints:
        assert self.render_chats is not None, "it was given its chat template before"
        texts = self.render_chats(chats)
        counted = self.encoder.rendered.count_faster(pa.array(texts, pa.large_string()))
        return self.encoder.rendered.count(texts) if counted is None else counted

    def _measure_split(self, chats: list[Any]) -> Ints:
        assert self.split_chats is not None
        texts, encoder = self.split_chats(chats), self.encoder.rendered
        sides = (pa.array(side, pa.large_string()) for side in zip(*texts, strict=True))
        counted = encoder.count_completions_faster(*sides)
        return count_completions(encoder.encode, texts) if counted is None else counted

    def _count_marked(self, chats: AssistantChats, on_error: OnError | None) -> "Counted":
        assert self.mark_chats is not None, "it was given its chat template before"
        masks = np.full(len(chats), None, dtype=object)
        mark, locate = self.mark_chats, self.encoder.locate
        self._measure(lambda some: mark(some, locate), chats, masks, 0, on_error)
        tokens = np.array([-1 if mask is None else len(mask) for mask in masks], dtype=np.int64)
        together = np.frombuffer(b"".join(mask or b"" for mask in masks), dtype=bool)
        trained = TokenRanges.of_mask(together, offsets_from_sizes(np.maximum(tokens, 0)))
        return Counted(tokens, np.flatnonzero(tokens >= 0), {"trained": trained})

    def _measure(
        self,
        measure: Callable[[list[Any]], Any],
        content: Texts | Chats,
        found: npt.NDArray[Any],
        before: int,
        on_error: OnError | None,
    ) -> None:
        """Put what is measured of each sample into `found`, some samples at a time."""
        # Few enough together that their ids fit in memory.
        for first, last in content.ranges(_BATCH_BYTES, _BATCH_SAMPLES):
            samples = content.slice(first, last).to_list()
            try:
                with panics_as_errors(), counting_after(first):
                    found[first:last] = _measured(measure, samples)
            except MiscountError:
                raise
            except Exception as error:
                # Whatever a tokenizer or a template raises is about one sample: find out which.
                if on_error is None:
                    raise
                _one_by_one(measure, samples, found[first:last], before + first, on_error, error)


def _one_by_one(
    measure: Callable[[list[Any]], Any],
    samples: Sequence[Any],
    found: npt.NDArray[Any],
    first: int,
    on_error: OnError,
    error: Exception,
) -> None:
    any_failed = False
    for i, sample in enumerate(samples):
        try:
            with panics_as_errors():
                found[i] = _measured(measure, [sample])[0]
        except MiscountError:
            raise
        except Exception as own:
            any_failed = True
            on_error(first + i, own)
    # No sample alone is at fault, as where all of them get one result: the error would be lost.
    if not any_failed:
        raise error


def _measured(measure: Callable[[list[Any]], Any], samples: list[Any]) -> Any:
    """Return what is measured of samples. Raise ValueError unless that is one result each."""
    found = measure(samples)
    # NumPy would let one result stand for all samples.
    if len(found) != len(samples):
        raise ValueError(f"{len(found):,} results for {len(samples):,} samples")
    return found


def _counted(found: Ints) -> Counted:
    """Return the result for (n,) tokens, or (n, 2) with those shared with a prompt; -1 for none."""
    if found.ndim == 1:
        return Counted(found, np.flatnonzero(found >= 0))
    tokens = found[:, 0]
    trained = TokenRanges.of_last(tokens, tokens - found[:, 1])
    return Counted(tokens, np.flatnonzero(tokens >= 0), {"trained": trained})
