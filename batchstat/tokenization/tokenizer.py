"""`Tokenizer`: a tokenizer with its name, its digest and its batch calls."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batchstat.corpus.chat import Message, TemplateInputs
from batchstat.corpus.content import (
    AssistantChats,
    Chats,
    CompletionChats,
    Completions,
    Texts,
    Words,
)
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, sum_groups
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.tokenization.chats.prompts import count_completions
from batchstat.tokenization.counting.count_check import (
    MiscountError,
    counting_after,
    panics_as_errors,
)

if TYPE_CHECKING:
    from batchstat.tokenization.chats.chat_template import Locate
    from batchstat.tokenization.encoder import Encoder

TOGETHER_BYTES = 8 << 20
"""Bytes of texts that are counted together by a faster way: many pieces repeat in so much text, and
its ids fit in memory. The engine and the counting by pieces have the same number, because which of
the two counts a text depends on when the engine is loaded, while the choice of texts that are
checked must not depend on time."""
_BATCH_BYTES = 4 << 20
_BATCH_SAMPLES = 2_500
"""Bytes and samples that the tokenizer itself counts together: few enough that their ids fit in
memory. 10,000 samples at a time took 5 to 8 % longer on Chinese, with qwen2 and t5."""

OnError = Callable[[int, Exception], None]
"""Called for a sample on which the tokenizer raised, with its position and the exception."""


class Counted(NamedTuple):
    """Tokens of n samples."""

    tokens: Ints
    samples: Ints
    kinds: Mapping[str, TokenRanges] = MappingProxyType({})


@dataclass(frozen=True)
class ChatFacts:
    """What of a tokenizer of transformers decides how it renders chats, beside its counts."""

    template: str | Mapping[str, str] | None  # its chat template, or several by name
    special_tokens: str
    class_name: str

    @classmethod
    def of(cls, loaded: Any) -> "ChatFacts":
        """Return the facts of a tokenizer of transformers."""
        # A template may write the special tokens, which come from the tokenizer's configuration.
        special = json.dumps(loaded.special_tokens_map, default=repr)
        class_name = f"{type(loaded).__module__}.{type(loaded).__qualname__}"
        return cls(loaded.chat_template, special, class_name)


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer as batchstat uses it: truncation and padding off, special tokens added."""

    name: str
    define: Callable[[], str]
    special_tokens_per_sample: int  # tokens of an empty text
    special_tokens_per_pair: int  # tokens of a pair of empty texts
    max_length: int | None  # its `model_max_length`, in tokens; None if it has none
    library: str
    load: "Callable[[], Encoder]"  # returns the encoder that counts
    made_by: tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]
    known_chats: ChatFacts | None = None
    render_chats: Callable[[list[Any]], list[str]] | None = None
    mark_chats: "Callable[[list[Any], Locate], list[bytes]] | None" = None
    split_chats: Callable[[list[Any]], list[tuple[str, str]]] | None = None
    left_out: Callable[[list[Message], TemplateInputs], Collection[str]] | None = None

    def __reduce__(self) -> tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]:
        return self.made_by

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text that `define` returns, in hexadecimal after `sha256:`."""
        return f"sha256:{hashlib.sha256(self.define().encode()).hexdigest()}"

    @cached_property
    def encoder(self) -> "Encoder":
        """What counts, loaded when it is first asked for."""
        return self.load()

    @property
    def chat_facts(self) -> ChatFacts:
        """How it renders chats."""
        return self.known_chats or ChatFacts.of(self.encoder.as_transformers())

    @property
    def has_shortcuts(self) -> bool:
        """Whether texts may be counted faster than by the tokenizer itself."""
        return self.encoder.engine is not None or self.encoder.pieces is not None

    def cannot_count(self, error: Exception) -> str:
        """Return the message for a text on which the tokenizer raises an exception."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"tokenizer {self.name!r} cannot count it: {reason[:200]}"

    def without_shortcuts(self) -> "Tokenizer":
        """Return a tokenizer that itself counts every text, without a faster way."""
        return replace(self, load=self.encoder.without_shortcuts)

    def expect(self, bytes_: int) -> None:
        """Announce how much text will come, in bytes, so that the fast engine is loaded early."""
        # Texts of chats have an engine of their own, which adds no special tokens.
        encoder = self.encoder if self.render_chats is None else self.encoder.rendered
        if encoder.engine is not None:
            encoder.engine.expect(bytes_)

    def count(
        self,
        content: Texts | Chats | Words,
        on_error: OnError | None = None,
        left_out: Counter[str] | None = None,
    ) -> "Counted":
        """Count the tokens of each sample. Raise MiscountError if a faster way is wrong."""
        if isinstance(content, Chats):
            return self._count_chats(content, on_error, Counter() if left_out is None else left_out)
        if isinstance(content, Words):
            return self._count_words(content, on_error)
        encoder = self.encoder
        has_prompts = isinstance(content, Completions)
        # The tokenizer's own way of counting, for samples that no faster way counts.
        measure = encoder.count
        if has_prompts:
            measure = partial(count_completions, encoder.encode)
        # (n,) tokens; (n, 2) with prompts: also how many carry no loss. -1: it cannot be counted.
        results: Ints = np.full((len(content), 2) if has_prompts else len(content), -1, np.int64)
        # Blocks have at most so many bytes, and any number of samples.
        for first, last in content.ranges(TOGETHER_BYTES, len(content)):
            samples, counts = content.slice(first, last), None
            with counting_after(first):  # the block's place decides which of its texts are checked
                if isinstance(samples, Completions):  # `joined`: each prompt with its completion
                    counts = encoder.count_completions_faster(samples.first, samples.joined())
                else:  # texts or pairs
                    counts = encoder.count_faster(samples.first, samples.second)
            if counts is None:
                block_results = results[first:last]
                self._measure_in_batches(measure, samples, block_results, on_error, before=first)
            else:
                results[first:last] = counts
        return _counted(results)

    def _count_words(self, content: Words, on_error: OnError | None) -> "Counted":
        """Count the tokens of lists of words."""
        # Each word is a text of its own, so distinct ones are counted once, and special tokens are
        # around all (`is_pretokenized` of tokenizers, `is_split_into_words` of transformers).
        encoded = content.words.dictionary_encode()
        failed: dict[int, Exception] = {}
        distinct = self.count(Texts(encoded.dictionary), failed.__setitem__).tokens
        own = distinct - self.special_tokens_per_sample
        word_of_each: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        offsets = content.offsets
        tokens = sum_groups(own[word_of_each], offsets) + self.special_tokens_per_sample
        for i in range(len(content)) if failed else ():
            words = word_of_each[offsets[i] : offsets[i + 1]].tolist()
            error = next((failed[word] for word in words if word in failed), None)
            if error is not None:
                if on_error is None:
                    raise error
                on_error(i, error)
                tokens[i] = -1
        return _counted(tokens)

    def _count_chats(
        self, chats: Chats, on_error: OnError | None, left_out: Counter[str]
    ) -> "Counted":
        """Count the tokens of chats, and count in `left_out` what the template leaves out."""
        if isinstance(chats, AssistantChats):
            counted = self._count_marked(chats, on_error)
        else:
            has_prompts = isinstance(chats, CompletionChats)
            # A tokenizer is prepared for chats or for texts once, by the first samples of a corpus.
            if has_prompts and self.split_chats is None:
                raise InputError(
                    "prompts are chats, but those that came first, or standard input, were taken "
                    "for texts",
                    "pass files that have chats only",
                )
            measure = self._measure_split if has_prompts else self._measure_rendered
            # The columns, and -1, are as in `count`.
            results: Ints = np.full((len(chats), 2) if has_prompts else len(chats), -1, np.int64)
            self._measure_in_batches(measure, chats, results, on_error)
            counted = _counted(results)
        if self.left_out is not None:
            for i in counted.samples.tolist():
                left_out.update(self.left_out(chats.messages[i], chats.inputs[i]))
        return counted

    def _measure_rendered(self, chats: list[Any]) -> Ints:
        assert self.render_chats is not None, "it was given its chat template before"
        texts = self.render_chats(chats)
        counts = self.encoder.rendered.count_faster(pa.array(texts, pa.large_string()))
        return self.encoder.rendered.count(texts) if counts is None else counts

    def _measure_split(self, chats: list[Any]) -> Ints:
        """Return (n, 2) tokens of chats, and how many of them each shares with its prompt."""
        assert self.split_chats is not None
        # Pairs of the text of a prompt and the text of the whole chat.
        texts, encoder = self.split_chats(chats), self.encoder.rendered
        prompts, wholes = (pa.array(side, pa.large_string()) for side in zip(*texts, strict=True))
        counts = encoder.count_completions_faster(prompts, wholes)
        return count_completions(encoder.encode, texts) if counts is None else counts

    def _count_marked(self, chats: AssistantChats, on_error: OnError | None) -> "Counted":
        """Count the tokens of chats, and find those of assistants' turns, which carry loss."""
        assert self.mark_chats is not None, "it was given its chat template before"
        # The mask of a chat, one byte for each token; None stays where the chat cannot be counted.
        masks = np.full(len(chats), None, dtype=object)
        mark, locate = self.mark_chats, self.encoder.locate
        self._measure_in_batches(lambda batch: mark(batch, locate), chats, masks, on_error)
        tokens = np.array([-1 if mask is None else len(mask) for mask in masks], dtype=np.int64)
        # All masks end to end; a chat that cannot be counted has no tokens there.
        all_masks = np.frombuffer(b"".join(mask or b"" for mask in masks), dtype=bool)
        begins = offsets_from_sizes(np.maximum(tokens, 0))  # where the mask of each chat begins
        trained = TokenRanges.of_mask(all_masks, begins)
        return Counted(tokens, np.flatnonzero(tokens >= 0), {"trained": trained})

    def _measure_in_batches(
        self,
        measure: Callable[[list[Any]], Any],
        content: Texts | Chats,
        results: npt.NDArray[Any],
        on_error: OnError | None,
        before: int = 0,
    ) -> None:
        """Apply `measure` to samples, in batches, and write one result for each sample."""
        for first, last in content.ranges(_BATCH_BYTES, _BATCH_SAMPLES):
            samples, batch_results = content.slice(first, last).to_list(), results[first:last]
            try:
                with panics_as_errors(), counting_after(first):
                    batch_results[:] = _one_result_each(measure, samples)
            except MiscountError:  # about a faster way, not about a sample
                raise
            except Exception as error:
                # Whatever a tokenizer or a template raises is about one sample: find out which.
                if on_error is None:
                    raise
                position = before + first
                _measure_one_by_one(measure, samples, batch_results, position, on_error, error)


def _measure_one_by_one(
    measure: Callable[[list[Any]], Any],
    samples: Sequence[Any],
    results: npt.NDArray[Any],
    first: int,
    on_error: OnError,
    batch_error: Exception,
) -> None:
    """Measure the samples of a batch that raised, one at a time, to find those that cause it."""
    any_failed = False
    for i, sample in enumerate(samples):
        try:
            with panics_as_errors():
                results[i] = _one_result_each(measure, [sample])[0]
        except MiscountError:
            raise
        except Exception as error:
            any_failed = True
            on_error(first + i, error)
    # No sample is at fault, for example where a tokenizer returns one result for the whole batch.
    if not any_failed:
        raise batch_error


def _one_result_each(measure: Callable[[list[Any]], Any], samples: list[Any]) -> Any:
    results = measure(samples)
    # NumPy would let one result stand for all samples.
    if len(results) != len(samples):
        raise ValueError(f"{len(results):,} results for {len(samples):,} samples")
    return results


def _counted(results: Ints) -> Counted:
    if results.ndim == 1:
        return Counted(results, np.flatnonzero(results >= 0))
    tokens, untrained = results[:, 0], results[:, 1]
    trained = TokenRanges.of_last(tokens, tokens - untrained)
    return Counted(tokens, np.flatnonzero(tokens >= 0), {"trained": trained})
