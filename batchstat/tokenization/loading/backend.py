"""A tokenizer of the tokenizers library as batchstat counts with it, parsed or known before."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import tokenizers

from batchstat.tokenization.counting.count_check import panics_as_errors
from batchstat.tokenization.loading.hub import import_quietly
from batchstat.tokenization.loading.state_digest import definition_of, parts_of_definition
from batchstat.tokenization.tokenizer import ChatFacts, Tokenizer

if TYPE_CHECKING:
    from batchstat.tokenization.encoder import Encoder

_LIBRARY = f"tokenizers {tokenizers.__version__}"


@dataclass(frozen=True)
class Known:
    """What is known of a tokenizer before it is parsed, which may take a second."""

    definition: str
    special_tokens_per_sample: int  # tokens of an empty text
    special_tokens_per_pair: int  # tokens of a pair of empty texts
    max_length: int | None  # its `model_max_length`, in tokens; None if it has none
    chats: ChatFacts | None = field(default=None, hash=False)  # a dict has no hash

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Known | None":
        """Return what is known of a loaded tokenizer; None for one written in Python."""
        if tokenizer.library != _LIBRARY:
            return None
        return cls(
            tokenizer.define(),
            tokenizer.special_tokens_per_sample,
            tokenizer.special_tokens_per_pair,
            tokenizer.max_length,
            tokenizer.known_chats,
        )


@dataclass
class Transformers:
    """The transformers tokenizer that a backend belongs to, made when it is first asked for."""

    make: Callable[[], Any] | None = None  # makes it; None where it is made
    made: Any = None  # what it made; None until then

    def __call__(self) -> Any:
        """Return the tokenizer, always the same."""
        if self.made is None:
            assert self.make is not None
            self.made = self.make()
        return self.made


def from_known(
    name: str, known: Known, as_transformers: Callable[[], Any] | None = None
) -> Tokenizer:
    """Return a tokenizer that is parsed when something is counted with it."""
    make = as_transformers or Transformers(partial(of_known, known, None))
    return Tokenizer(
        name=name,
        define=lambda: known.definition,
        special_tokens_per_sample=known.special_tokens_per_sample,
        special_tokens_per_pair=known.special_tokens_per_pair,
        max_length=known.max_length,
        library=_LIBRARY,
        load=lambda: _encoder(_parsed(known), make),
        made_by=(from_known, (name, known, make)),
        known_chats=known.chats,
    )


def from_backend(
    name: str,
    backend: tokenizers.Tokenizer,
    max_length: int | None,
    as_transformers: Callable[[], Any] | None = None,
) -> Tokenizer:
    """Wrap a tokenizer of the tokenizers library."""
    backend.no_truncation()
    backend.no_padding()
    with panics_as_errors():  # with some post-processors, it panics on an empty text
        special = len(backend.encode("").ids), len(backend.encode("", "").ids)
    make = as_transformers or Transformers(partial(_of_backend, backend, None))
    return Tokenizer(
        name=name,
        define=lambda: definition_of(backend),
        special_tokens_per_sample=special[0],
        special_tokens_per_pair=special[1],
        max_length=max_length,
        library=_LIBRARY,
        load=lambda: _encoder(backend, make),
        made_by=(_rebuild, (backend, backend.encode_special_tokens, name, max_length, make)),
    )


def _rebuild(
    backend: tokenizers.Tokenizer,
    encode_special_tokens: bool,
    name: str,
    max_length: int | None,
    as_transformers: Callable[[], Any],
) -> Tokenizer:
    # The pickle of a backend omits `encode_special_tokens`, which is set here.
    backend.encode_special_tokens = encode_special_tokens
    return from_backend(name, backend, max_length, as_transformers)


@lru_cache(maxsize=2)  # nothing modifies it, and a process may count several corpora
def _parsed(known: Known) -> tokenizers.Tokenizer:
    definition, splits_special_tokens = parts_of_definition(known.definition)
    backend = tokenizers.Tokenizer.from_str(definition)
    backend.encode_special_tokens = splits_special_tokens
    return backend


def of_known(known: Known, chat_template: str | None) -> Any:
    """Return a transformers tokenizer of what is known of one."""
    return _of_backend(_parsed(known), chat_template)


def _of_backend(backend: tokenizers.Tokenizer, chat_template: str | None) -> Any:
    return import_quietly("PreTrainedTokenizerFast")(
        tokenizer_object=backend, chat_template=chat_template
    )


def _encoder(backend: tokenizers.Tokenizer, as_transformers: Callable[[], Any]) -> "Encoder":
    """Return the encoder of a tokenizer, with the faster ways of counting that are exact for it."""
    # Not loaded where all counts are cached.
    from tokenizers.models import BPE

    from batchstat.tokenization.counting.engine_counter import EngineCounter
    from batchstat.tokenization.counting.piece_counter import PieceCounter
    from batchstat.tokenization.counting.safe_cuts import find_cuts
    from batchstat.tokenization.encoder import Encoder, TextEncoder
    from batchstat.tokenization.token_positions import TokenLocator

    cuts = find_cuts(backend)

    def shortcuts(*, special_tokens: bool) -> dict[str, Any]:
        # The faster ways of counting, as arguments of TextEncoder. The engine counts only BPE.
        is_bpe = isinstance(backend.model, BPE)
        return {
            # `cuts` is None, and so is this, if texts of the tokenizer cannot be cut.
            "pieces": cuts and PieceCounter(backend, cuts, special_tokens=special_tokens),
            "engine": EngineCounter(backend, special_tokens=special_tokens) if is_bpe else None,
        }

    # Chats are texts in which the template has written the special tokens: no others are added.
    rendered = TextEncoder(
        encode=lambda texts: backend.encode_batch_fast(texts, add_special_tokens=False),
        **shortcuts(special_tokens=False),
    )
    return Encoder(
        encode=backend.encode_batch_fast,
        rendered=rendered,
        find_positions=TokenLocator(backend).locate,
        as_transformers=as_transformers,
        **shortcuts(special_tokens=True),
    )
