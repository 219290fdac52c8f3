"""Messages, docstrings, help and documents are in plain English, with one word per thing."""

import ast
import re
from pathlib import Path

from conftest import ROOT
from package_trees import tree_of
from tables import in_turn

BANNED = [
    r"\b(?:tokens|samples|batches|steps) a (?:batch|sample|epoch|step|rank|row|second)\b",
    r"(?<!there )(?<!where )\bis no (?!longer\b|larger\b|more\b)\w+",
    r"(?<!there )\bare (?-i:none)\b",
    r"\bthat which\b",
    r"\bin the place of\b",
    r"\banew\b",
    r"\bfor ever\b(?!y)",
    r"\b(?:goes|go|went) by the\b",
    r"\bdoes not go round\b",
    r"\bleft out of account\b",
    r"\bwhose it is\b",
    r"\bwhite space\b",
    r"\bmend(?:s|ed)?\b",
    r"\bdealt?\b",
    r"\bexclude each other\b",
    r"\btried three times\b",
]
"""Words that are wrong in one sense only are left to review."""

_PATTERN = re.compile("|".join(BANNED), re.IGNORECASE)

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("batchstat/.agents/**/*.md"),
        *ROOT.glob("batchstat/*.toml"),
    ]
)
MODULES = sorted((ROOT / "batchstat").rglob("*.py"))


def texts_of(path: Path) -> list[str]:
    """The lines of a document, or all text in a module: messages, docstrings and help."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text.splitlines()
    tree = ast.walk(tree_of(path))
    found = [node.value for node in tree if isinstance(node, ast.Constant)]
    return [" ".join(value.split()) for value in found if isinstance(value, str)]


def test_no_phrase_has_to_be_translated_back():
    """All of them are listed, so that they are corrected at once."""
    found = {
        path.relative_to(ROOT).as_posix(): [match[0] for match in matches]
        for path in (*DOCUMENTS, *MODULES)
        if (matches := [m for text in texts_of(path) for m in _PATTERN.finditer(text)])
    }
    assert found == {}


@in_turn(
    ("text", "banned"),
    [
        ("16,384 tokens a batch", True),
        ("lengths.npy is no array", True),
        ("there is no answer", False),
        ("it is no longer there", False),
        ("counted anew", True),
        ("whatever is dealt to it", True),
        ("for every sample", False),
    ],
)
def test_the_phrases_are_found(text, banned):
    assert bool(_PATTERN.search(text)) == banned
