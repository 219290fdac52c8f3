"""Whether a trainer that loads a tokenizer in its own way gets the one that is counted with."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from batchstat.errors import InputError
from batchstat.tokenization.loading.hub import hub_answers, import_quietly
from batchstat.tokenization.loading.load import as_tokenizer, load_tokenizer
from batchstat.tokenization.loading.load_errors import one_line
from batchstat.words import short


def check_class(name: str, kind: str, options: Mapping[str, Any]) -> None:
    """Check that a trainer which loads a tokenizer by a named class gets the tokens of `profile`.

    `profile` loads a tokenizer by the class with which it was saved. Another class may split texts
    in its own way, whatever tokenizer.json says.

    Args:
        name: the tokenizer, as `profile` takes it.
        kind: the name of the class, in transformers.
        options: arguments with which the trainer loads it.

    Raises:
        InputError: the class makes another tokenizer, or none.
    """
    counted = load_tokenizer(name)
    try:
        of_trainer = _transformers_class(kind).from_pretrained(
            name, local_files_only=Path(name).exists() or not hub_answers(), **options
        )
        is_same = as_tokenizer(of_trainer).digest == counted.digest
    except Exception as error:  # transformers passes on anything that a file or the hub causes
        raise InputError(
            f"tokenizer {name!r} cannot be loaded by {kind}, as the trainer does: "
            f"{one_line(error)}",
            "name another class, or none",
        ) from None
    of_profile = counted.encoder.as_transformers()
    # The digest has neither the chat template nor the names of special tokens.
    if is_same and _chat_facts(of_trainer) == _chat_facts(of_profile):
        return
    call = "".join(f", {key}={value!r}" for key, value in options.items())
    raise InputError(
        f"the trainer loads tokenizer {name!r} by {kind}, which makes other tokens of it than "
        f"{type(of_profile).__name__}",
        f"save it with {kind}.from_pretrained({name!r}{call})"
        ".save_pretrained('FOLDER') and pass --tokenizer FOLDER",
    )


def check_added(name: str, tokens: Iterable[str]) -> None:
    """Check that a tokenizer has the tokens which a trainer adds to it: then nothing changes.

    Args:
        name: the tokenizer, as `profile` takes it.
        tokens: the tokens.

    Raises:
        InputError: the tokenizer lacks one of the tokens, or has it with other flags than the
            trainer gives it: it takes whitespace around it, or is found in normalized text.
    """
    loaded = load_tokenizer(name).encoder.as_transformers()
    added = {token.content: token for token in loaded.added_tokens_decoder.values()}
    for text in tokens:
        token = added.get(text)
        if token is None or token.lstrip or token.rstrip or token.normalized:
            raise InputError(
                f"the trainer adds {short(text)} to tokenizer {name!r}, which lacks it or has it "
                "otherwise",
                "save the tokenizer with it, and pass --tokenizer FOLDER",
            )


def check_eos(name: str, token: str) -> None:
    """Raise InputError if axolotl would not train the token that ends a turn in a chat template.

    By default, axolotl trains that token only if it is the tokenizer's eos_token.

    Args:
        name: the tokenizer, as `profile` takes it.
        token: the token that ends a turn.
    """
    eos_token = load_tokenizer(name).encoder.as_transformers().eos_token
    if eos_token != token:
        raise InputError(
            f"axolotl trains {token}, which ends a turn, only where it is the eos_token of the "
            f"tokenizer ({eos_token} in {name!r}) or one of eot_tokens",
            "add eot_tokens: "
            f"['{token}'], or pass a template with {{% generation %}} around what is trained with "
            "--chat-template",
        )


def _transformers_class(kind: str) -> Any:
    """Return a class of transformers by its name; its fast form if there is one.

    In transformers 5 both names are one class; in 4 a trainer takes the fast one.
    """
    try:
        return import_quietly(f"{kind}Fast")
    except AttributeError:
        return import_quietly(kind)


def _chat_facts(tokenizer: Any) -> list[Any]:
    """Return the chat template, and the special tokens that it or a trainer may write."""
    names = ("bos_token", "eos_token", "unk_token")
    return [tokenizer.chat_template, *(str(getattr(tokenizer, name)) for name in names)]
