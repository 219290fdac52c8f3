"""Where texts may be cut for SentencePiece BPE without a pre-tokenizer, as of Llama 2 and Mistral.

Their normalizer puts a mark before the text and turns every space into the mark, and the model then
merges the whole text: a merge may well begin with marks, as in those of indentation. In general
there is no cut: a vocabulary with an entry such as `a▁b` merges over spaces. But in the published
vocabularies no entry has a mark after anything else than marks. Then nothing merges across the
beginning of a run of marks, what merges on one side does not depend on the other, since a merge is
chosen by its rank and then from left to right, and both sides may be counted alone.

The right side loses its space, which the normalizer puts back as the mark before a text. So there
must be something to put it before, which the end of a text lacks. Around an added token a text
falls into parts that are normalized one by one, and a space beside it stays a mark, so no cut is
beside one. Refused are therefore tokens that
begin with a space or contain one, take whitespace with them or are found in normalized text. A
character outside the vocabulary must be tokenized by its bytes: unknown tokens are fused with each
other, and might be so across a cut.
"""

import tokenizers

from batchstat.tokenization.separable import VISIBLE, Definition

_MARK = "\u2581"
_MARKED = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": _MARK},
        {"type": "Replace", "pattern": {"String": " "}, "content": _MARK},
    ],
}
_BYTES = {f"<0x{byte:02X}>" for byte in range(256)}
_ENDS = VISIBLE + bytes(set(range(0x80, 0xC0)) - {_MARK.encode()[-1]})
"""Last bytes of all characters except the mark, spaces and control characters."""


def is_unsplit(
    tokenizer: tokenizers.Tokenizer, normalizer: Definition, splitter: Definition
) -> bool:
    """Return whether texts of a tokenizer may be cut before a space inside a text."""
    model = tokenizer.model
    if splitter or normalizer != _MARKED or not isinstance(model, tokenizers.models.BPE):
        return False
    if model.continuing_subword_prefix or model.end_of_word_suffix or model.ignore_merges:
        return False
    added = tokenizer.get_added_tokens_decoder().values()
    if any(token.lstrip or token.normalized or " " in token.content for token in added):
        return False
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    return (
        model.byte_fallback
        and vocabulary.keys() >= {*_BYTES, _MARK}
        and not any(_MARK in entry.lstrip(_MARK) for entry in vocabulary)
    )


def around_space(tokens: list[str]) -> tuple[bytes, bytes]:
    """Return after which bytes the space of a cut may be, and before which: not beside a token."""
    first, last = ({token.encode()[at] for token in tokens if token} for at in (0, -1))
    return bytes(set(_ENDS) - last), bytes(set(range(256)) - {ord(" ")} - first)
