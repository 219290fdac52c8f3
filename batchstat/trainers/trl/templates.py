"""The chat template with which TRL finds the answers of chats, under `assistant_only_loss`.

Checked against TRL 1.16: `has_generation_markers` and `get_training_chat_template` in
trl/chat_template_utils.py, which knows a template by its text, and the files of both in
trl/chat_templates.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from batchstat.errors import InputError

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


def _templates_of_trl() -> Path | None:
    """Return the folder of its templates, which is found without loading it."""
    spec = find_spec("trl")
    for place in (spec and spec.submodule_search_locations) or ():
        if (folder := Path(place) / "chat_templates").is_dir():
            return folder
    return None
