"""The chat template with which TRL finds the answers of chats, under `assistant_only_loss`, and the
tokens of one that it takes from another tokenizer. Checked against TRL 1.16:
`has_generation_markers` and `get_training_chat_template` in trl/chat_template_utils.py, which knows
a template by its text, and the files of both in trl/chat_templates.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from batchstat.errors import InputError
from batchstat.words import short

# {%+ generation %} is a mark to transformers, but not to TRL, which looks for {% and {%- alone.
_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")

_REMEDY = (
    "name one that marks answers with {% generation %}, as chat_template_path or --chat-template"
)


def answers_template(source: str) -> Path | None:
    """Return the file, in the TRL that is installed, of the chat template that TRL uses in place of
    one that does not mark assistants' answers; None for one with marks, which TRL keeps. Raises
    InputError: TRL stops at this template, or is not installed.
    """
    if _MARKS.search(source):
        return None
    folder = _templates_of_trl()
    if folder is None:
        raise InputError(
            "assistant_only_loss=true and a chat template without {% generation %}: TRL has marked "
            "ones for some, and stops at others, but is not installed here",
            f"install trl, or {_REMEDY}",
        )
    # llama3_training.jinja is llama3.jinja with marks: TRL compares texts with the latter.
    for marked in sorted(folder.glob("*_training.jinja")):
        unmarked = marked.with_stem(marked.stem.removesuffix("_training"))
        if unmarked.is_file() and unmarked.read_text(encoding="utf-8") == source:
            return marked
    raise InputError(
        "assistant_only_loss=true and a chat template without {% generation %}, which is none of "
        "those that TRL replaces by a marked one, so that it stops",
        _REMEDY,
    )


def check_tokens(path: Path, tokenizer: str) -> None:
    """Raise InputError if a tokenizer lacks tokens of a chat template it gets: TRL adds them."""
    if not path.is_dir():
        raise InputError(
            f"the chat template of {path.as_posix()} is not loaded here",
            "pass a tokenizer with its "
            "tokens, --tokenizer, and the file of its template, --chat-template",
        )
    # Tokenizers are loaded only where a configuration has chats.
    from batchstat.tokenization.loading.load import load_tokenizer

    vocabulary = load_tokenizer(tokenizer).encoder.as_transformers().get_vocab()
    tokens = load_tokenizer(path.as_posix()).encoder.as_transformers().added_tokens_decoder
    lacking = [token.content for token in tokens.values() if token.content not in vocabulary]
    if lacking:
        raise InputError(
            f"TRL adds the tokens of {path.as_posix()} to the tokenizer {tokenizer}, "
            f"which lacks {short(lacking[0])}",
            "pass one that has them, as TRL saves it, --tokenizer",
        )


def _templates_of_trl() -> Path | None:
    """Return the folder with TRL's chat templates, without importing TRL; None if there is none."""
    spec = find_spec("trl")
    for place in (spec and spec.submodule_search_locations) or ():
        if (folder := Path(place) / "chat_templates").is_dir():
            return folder
    return None
