"""What counted a profile, and how many of its texts hold something that a trainer looks for."""

from typing import Any

from batchstat.corpus.content import Texts
from batchstat.corpus.sources import STANDARD_INPUT
from batchstat.corpus.splits import splits_of
from batchstat.errors import InputError
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


def texts_with(profile: Profile, text: str, times: int) -> int:
    """Return how many texts of a profile have another text at least so many times, of which they
    are read again.

    Raises:
        InputError: they cannot be read again.
    """
    import pyarrow.compute as pc  # with the reader, more to load than a cached profile needs

    from batchstat.corpus.reader import CorpusReader

    sources, options = profile.corpus.sources, profile.corpus.options
    if any(source.path == STANDARD_INPUT for source in sources):
        raise InputError("standard input cannot be read again: save the corpus to a file")
    found = 0
    for block in CorpusReader(splits_of(sources, options), options).blocks():
        if isinstance(block.content, Texts):
            counts = pc.count_substring(block.content.first, text)
            found += pc.sum(pc.greater_equal(counts, times)).as_py() or 0
    return found
