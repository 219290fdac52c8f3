"""Whether a trainer that loads a tokenizer in its own way gets the one that is counted with."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, short
from batchstat.tokenization.loading.hub import hub_answers, import_quietly
from batchstat.tokenization.loading.load import as_tokenizer, load_tokenizer
from batchstat.tokenization.loading.load_errors import one_line


def check_class(name: str, kind: str, options: Mapping[str, Any]) -> None:
    """Raise InputError if a class of transformers makes another tokenizer of a folder or name than
    the class with which it was saved.

    A class that fits the model may still split texts in its own way, whatever tokenizer.json says.

    Args:
        name: the tokenizer, as `profile` takes it.
        kind: the class.
        options: arguments with which it is loaded.
    """
    counted = load_tokenizer(name)
    try:
        # In transformers 5 both names are one class; in 4 a trainer takes the fast one.
        made = _class(kind).from_pretrained(
            name, local_files_only=Path(name).exists() or not hub_answers(), **options
        )
        is_same = as_tokenizer(made).digest == counted.digest
    except Exception as error:  # transformers passes on anything that a file or the hub causes
        raise InputError(
            f"tokenizer {name!r} cannot be loaded by {kind}, as the trainer does: "
            f"{one_line(error)}: name another class, or none"
        ) from None
    saved = counted.encoder.as_transformers()
    if is_same and made.chat_template == saved.chat_template and _written(made) == _written(saved):
        return
    call = "".join(f", {key}={value!r}" for key, value in options.items())
    raise InputError(
        f"the trainer loads tokenizer {name!r} by {kind}, which makes other tokens of it than "
        f"{type(saved).__name__}: save it with {kind}.from_pretrained({name!r}{call})"
        ".save_pretrained('FOLDER') and pass --tokenizer FOLDER"
    )


def check_added(name: str, tokens: Iterable[str]) -> None:
    """Raise InputError if a tokenizer lacks a token that the trainer adds to it, or has it with
    spaces or normalization around it.
    """
    own = load_tokenizer(name).encoder.as_transformers()
    added = {token.content: token for token in own.added_tokens_decoder.values()}
    for each in tokens:
        token = added.get(each)
        if token is None or token.lstrip or token.rstrip or token.normalized:
            raise InputError(
                f"the trainer adds {short(each)} to tokenizer {name!r}, which lacks it or has it "
                "otherwise: save the tokenizer with it, and pass --tokenizer FOLDER"
            )


def check_eos(name: str, token: str) -> None:
    """Raise InputError if chats end their turns with another token than the tokenizer's eos_token,
    so that axolotl does not train it.
    """
    eos_token = load_tokenizer(name).encoder.as_transformers().eos_token
    if eos_token != token:
        raise InputError(
            f"axolotl trains {token}, which ends a turn, only where it is the eos_token of the "
            f"tokenizer ({eos_token} in {name!r}) or one of eot_tokens: add eot_tokens: "
            f"['{token}'], or pass a template with {{% generation %}} around what is trained with "
            "--chat-template"
        )


def _class(kind: str) -> Any:
    try:
        return import_quietly(f"{kind}Fast")
    except AttributeError:
        return import_quietly(kind)


def _written(tokenizer: Any) -> dict[str, str]:
    """Return the tokens that a chat template or a trainer may write."""
    names = ("bos_token", "eos_token", "unk_token")
    return {name: str(getattr(tokenizer, name)) for name in names}
