"""Tokenizers that count by being called, such as those written in Python."""

import json
import os
import unicodedata
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from batchstat.storage.machine import installed_versions
from batchstat.tokenization.encoder import Encoder, TextEncoder
from batchstat.tokenization.loading.state_digest import state_digest
from batchstat.tokenization.tokenizer import Tokenizer

_LIBRARIES = (
    *("transformers", "tokenizers", "sentencepiece", "protobuf", "tiktoken", "mistral-common"),
    *("regex", "ftfy", "sacremoses", "emoji", "nltk", "jieba", "rjieba", "pythainlp"),
    *("fugashi", "ipadic", "unidic", "unidic-lite", "sudachipy", "rhoknp", "phonemizer", "uroman"),
)
"""Libraries that tokenizers of transformers call: another version may count differently."""

_ORIGIN_SETTINGS = ("name_or_path", "is_local", "local_files_only")
"""Arguments that say only where a tokenizer was found: they change no count."""


def from_callable(
    name: str, tokenizer: Any, max_length: int | None, definition: str | None = None
) -> Tokenizer:
    """Wrap a transformers tokenizer that counts by being called."""
    # Made before the first call: a tokenizer may store in its attributes what it was called with.
    known_definition = definition or _definition(tokenizer)

    # `texts` is one list of texts; or two lists, the first and the second texts of pairs.
    def call(*texts: list[str], special_tokens: bool = True) -> list[list[int]]:
        encoded: Mapping[str, list[list[int]]] = tokenizer(
            *texts,
            add_special_tokens=special_tokens,
            padding=False,
            truncation=False,
            # Otherwise transformers warns about each text that is longer than model_max_length.
            verbose=False,
            return_attention_mask=False,
        )
        return encoded["input_ids"]

    def encode(samples: list[Any]) -> list[list[int]]:
        if isinstance(samples[0], tuple):  # pairs
            return call(*map(list, zip(*samples, strict=True)))
        return call(samples)

    return Tokenizer(
        name=name,
        define=lambda: known_definition,
        special_tokens_per_sample=len(encode([""])[0]),
        special_tokens_per_pair=len(encode([("", "")])[0]),
        max_length=max_length,
        library=f"transformers {version('transformers')}",
        load=lambda: Encoder(
            encode=encode,
            rendered=TextEncoder(encode=lambda texts: call(texts, special_tokens=False)),
            # The second argument is the faster engine, which this tokenizer does not have.
            find_positions=lambda texts, _: tokenizer(
                texts, add_special_tokens=False, verbose=False
            ),
            as_transformers=lambda: tokenizer,
        ),
        made_by=(from_callable, (name, tokenizer, max_length, known_definition)),
    )


def _definition(tokenizer: Any) -> str:
    """Return a text that differs between two tokenizers if their counts may differ."""
    attributes = dict(vars(tokenizer))
    settings = attributes.pop("init_kwargs", {})
    attributes.pop("name_or_path", None)  # it, too, only says where the tokenizer was found
    settings = {key: value for key, value in settings.items() if key not in _ORIGIN_SETTINGS}
    state = {"class": type(tokenizer), "attributes": attributes, "settings": settings}
    versions = {"unicode": unicodedata.unidata_version, **installed_versions(_LIBRARIES)}
    # Folders are left out of the digest: the same tokenizer may be in another folder elsewhere.
    paths = [value for value in (attributes | settings).values() if isinstance(value, str)]
    # Not Path.is_file, which raises for some texts that are no paths.
    found = filter(os.path.isfile, paths)
    # A file in the working folder has no folder in its path.
    folders = {path.removesuffix(Path(path).name) for path in found} - {""}
    digest = state_digest(state, folders)
    return json.dumps({"state": digest, "versions": versions})
