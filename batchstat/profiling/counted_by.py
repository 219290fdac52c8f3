"""What counted a profile, and which of its tokens are not one that a trainer looks for."""

import json
from itertools import chain
from typing import Any

import numpy as np

from batchstat.corpus.content import Texts
from batchstat.corpus.splits import splits_of
from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.profile import Profile
from batchstat.tokenization.loading.load import load_tokenizer


def tokenizer_of(profile: Profile) -> Any:
    """Return the tokenizer of a profile as an object of transformers, loaded by its name.

    Raises:
        InputError: the profile came with lengths, or the tokenizer cannot be loaded.
    """
    if profile.tokenizer is None:
        raise InputError("the corpus came with lengths, not with a tokenizer: pass its texts")
    return load_tokenizer(profile.tokenizer.name).encoder.as_transformers()


def tokens_other_than(profile: Profile, token: str, lengths: Ints, tokenizer: Any) -> TokenRanges:
    """Return the tokens of texts that are not this one, of which those with it inside are read and
    tokenized again.

    Args:
        profile: counted texts; what is appended to them may be the token.
        token: one token of the tokenizer.
        lengths: (n,) tokens of each, without special tokens.
        tokenizer: what counted them, as an object of transformers.

    Raises:
        InputError: they cannot be read again, or have changed.
    """
    import pyarrow.compute as pc  # with the reader, more to load than a cached profile needs

    from batchstat.corpus.reader import CorpusReader

    sources, options = profile.corpus.sources, profile.corpus.options
    if any(source.is_standard_input for source in sources):
        raise InputError("standard input cannot be read again: save the corpus to a file")
    number, at_end = tokenizer.convert_tokens_to_ids(token), int(options.append == token)
    looks_at_all = _may_stand_for_others(tokenizer, token, number)
    picked, ids, read = [np.zeros(0, dtype=np.int64)], list[list[int]](), 0
    for block in CorpusReader(splits_of(sources, options), options).blocks():
        if not isinstance(block.content, Texts):
            continue
        texts = block.content.first
        holds = pc.greater(pc.count_substring(texts, token), at_end)
        places = np.flatnonzero(np.asarray(holds) | looks_at_all)
        if len(places):
            held = texts.take(places).to_pylist()
            ids += tokenizer(held, add_special_tokens=False, verbose=False)["input_ids"]
            picked.append(read + places)
        read += len(texts)
    samples, sizes = np.concatenate(picked), np.array([len(each) for each in ids], dtype=np.int64)
    if read != len(lengths) or (lengths[samples] != sizes).any():
        raise InputError("the corpus has changed since it was counted: count it again")
    flat = np.array(list(chain.from_iterable(ids)), dtype=np.int64)
    again = TokenRanges.of_mask(flat != number, offsets_from_sizes(sizes))
    all_other = TokenRanges.of_last(lengths - at_end, lengths - at_end)
    order = np.arange(len(lengths))
    order[samples] = len(lengths) + np.arange(len(samples))
    return TokenRanges.concatenate([all_other, again]).take(order)


def _may_stand_for_others(tokenizer: Any, token: str, number: int) -> bool:
    """Return whether a text may have a token that is not written in it as it is, or may be written
    there and not be found.
    """
    added = tokenizer.added_tokens_decoder.get(number)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or added is None or added.normalized or added.single_word:
        return True
    if backend.model.id_to_token(number) not in (None, token):
        return True
    model = json.loads(backend.to_str())["model"]
    unknown = model.get("unk_token")
    if model.get("unk_id") is not None:
        unknown = model["vocab"][model["unk_id"]][0]
    return bool(token == unknown)
