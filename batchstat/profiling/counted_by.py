"""The tokenizer that counted a profile, for what of it a trainer goes by."""

from typing import Any

from batchstat.errors import InputError
from batchstat.profiling.profile import Profile
from batchstat.tokenization.loading import load_tokenizer


def tokenizer_of(profile: Profile) -> Any:
    """Return the tokenizer of a profile as an object of transformers, loaded by its name.

    Raises:
        InputError: the profile came with lengths, or the tokenizer cannot be loaded.
    """
    if profile.tokenizer is None:
        raise InputError("the corpus came with lengths, not with a tokenizer: pass its texts")
    return load_tokenizer(profile.tokenizer.name).encoder.as_transformers()
