"""The chat template with which TRL finds the answers of chats, under `assistant_only_loss`, and the
tokens of one that it takes from another tokenizer.

Checked against TRL 1.16: `has_generation_markers` and `get_training_chat_template` in
trl/chat_template_utils.py, which knows a template by its text, and the files of both in
trl/chat_templates.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from batchstat.errors import InputError, short

# Not the marks with a plus, which transformers applies: TRL does not see these.
_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")

_REMEDY = (
    "name one that marks answers with {% generation %}, as chat_template_path or --chat-template"
)


def answers_template(source: str) -> Path | None:
    """Return the file of the template by which TRL replaces one without marks.

    Args:
        source: the template.

    Returns:
        The file, in the TRL that is installed; None for a template that has marks.

    Raises:
        InputError: TRL stops at this template, or is not installed.
    """
    if _MARKS.search(source):
        return None
    folder = _templates_of_trl()
    if folder is None:
        raise InputError(
            "assistant_only_loss=true and a chat template without {% generation %}: TRL has marked "
            "ones for some, and stops at others, but is not installed here: install trl, or "
            f"{_REMEDY}"
        )
    for file in sorted(folder.glob("*_training.jinja")):
        plain = file.with_stem(file.stem.removesuffix("_training"))
        if plain.is_file() and plain.read_text(encoding="utf-8") == source:
            return file
    raise InputError(
        "assistant_only_loss=true and a chat template without {% generation %}, which is none of "
        f"those that TRL replaces by a marked one, so that it stops: {_REMEDY}"
    )


def check_tokens(path: Path, tokenizer: str) -> None:
    """Raise InputError if a tokenizer lacks tokens of the one whose chat template it gets."""
    if not path.is_dir():
        raise InputError(
            f"the chat template of {path.as_posix()} is not loaded here: pass a tokenizer with its "
            "tokens, --tokenizer, and the file of its template, --chat-template"
        )
    # Tokenizers are loaded only where a configuration has chats.
    from batchstat.tokenization.loading.load import load_tokenizer

    own = load_tokenizer(tokenizer).encoder.as_transformers().get_vocab()
    theirs = load_tokenizer(path.as_posix()).encoder.as_transformers().added_tokens_decoder
    lacks = [token.content for token in theirs.values() if token.content not in own]
    if lacks:
        raise InputError(
            f"TRL adds the tokens of {path.as_posix()} to the tokenizer {tokenizer}, "
            f"which lacks {short(lacks[0])}: pass one that has them, as TRL saves it, --tokenizer"
        )


def _templates_of_trl() -> Path | None:
    """Return the folder of its templates, which is found without loading it."""
    spec = find_spec("trl")
    for place in (spec and spec.submodule_search_locations) or ():
        if (folder := Path(place) / "chat_templates").is_dir():
            return folder
    return None
