"""After which bytes a text may be cut before a space, as far as its normalizer is concerned. Every
step must change both sides of such a cut as if each were alone, and leave the right side beginning
with a space. That holds for each step below because of what it looks at:

NFC, NFD, NFKC, NFKD
    Marks are reordered after the character that they follow, and composed with it. No mark moves
    over a space, which composes with nothing before it and with no mark after it.
StripAccents, Lowercase, Nmt
    They handle one character at a time, and leave a space as it is.
Precompiled
    It replaces grapheme clusters by what its map has for their first characters. One ends before a
    space unless it begins with one of a few signs that precede others, such as U+0600; what a map
    does with those, with ASCII, and with marks after a space is tried.
Replace
    Of visible ASCII by visible ASCII, such as two apostrophes by a quote: no match contains a
    space. Of runs of spaces by one: see below. Other patterns are refused.
Strip, on the right only
    It takes whitespace from the end of a text, and stops at visible ASCII.

After visible ASCII a cut is valid with all of these, which leave it visible ASCII: a run of spaces
is on one side. After any other byte, the left side may end in spaces once it is normalized: of
U+00A0, U+200B, or nothing but a mark that is stripped. A Replace of runs then changes how many
spaces there are, not whether there are any: no matter where WhitespaceSplit drops them next; but it
is where every space is a mark, by Metaspace alone, or where Strip or a Replace by that mark sees
the side end there.
"""

import base64
from typing import Any

from tokenizers import normalizers

VISIBLE = bytes(range(0x21, 0x7F))
ALL_BUT_SPACE = bytes(set(range(256)) - {0x20})

_BY_CHARACTER = ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Nmt")
_SPACES = {"Regex": " {2,}"}  # the pattern of runs of spaces
_MARK = "\u2581"  # what SentencePiece writes for a space
_SIGNS_AND_MARKS = "".join(
    chr(code)
    for first, last in (
        *((0x80, 0x3100), (0xA600, 0xAC00), (0xFB00, 0xFFFE), (0x10000, 0x12000)),
        *((0x16A00, 0x17000), (0x1BC00, 0x1BD00), (0x1CF00, 0x1D300), (0x1DA00, 0x1EA00)),
        *((0x1F3F0, 0x1F400), (0xE0000, 0xE0200)),
    )
    for code in range(first, last)
)
"""Blocks with all characters that share a grapheme cluster with a space beside them."""

Definition = dict[str, Any]  # a component of a tokenizer.json, parsed


def valid_before_space(normalizer: Definition, splits_at_whitespace: bool) -> bytes:
    """Return the bytes after which a text may be cut before a space; none if that is not known."""
    steps = steps_of(normalizer, "normalizers")
    maps = _precompiled_maps(steps)
    # A Replace of runs of spaces by the mark may only be the last step: later steps would see a
    # right side that begins with the mark, and are proven only for one that begins with a space.
    marks_early = any(_replacement(step) == (_SPACES, _MARK) for step in steps[:-1])
    if marks_early or not all(map(_is_separable_after_ascii, steps)):
        return b""
    if not all(map(_keeps_ascii, maps)):
        return b""
    if splits_at_whitespace and all(map(_is_separable, steps)) and all(map(_keeps_spaces, maps)):
        return ALL_BUT_SPACE
    return VISIBLE


def keeps_line_ends(normalizer: Definition) -> bool:
    """Return whether tabs and line ends stay whitespace: maps, which are tried, may change them."""
    maps = _precompiled_maps(steps_of(normalizer, "normalizers"))
    texts = [f"_{end}_" for end in "\t\n\r"]
    return all(each.normalize_str(text)[1:-1].isspace() for each in maps for text in texts)


def _precompiled_maps(steps: list[Definition]) -> list[Any]:
    """Return a normalizer object for each Precompiled step, which can be applied to texts."""
    return [
        normalizers.Precompiled(base64.b64decode(step["precompiled_charsmap"]))
        for step in steps
        if step["type"] == "Precompiled"
    ]


def steps_of(part: Definition, kind: str) -> list[Definition]:
    """Return the steps of a component, with those of its Sequences, whose key is `kind`."""
    if kind in part:
        return [step for inner in part[kind] for step in steps_of(inner, kind)]
    return [part] if part else []


def _replacement(step: Definition) -> tuple[Any, Any]:
    return step.get("pattern"), step.get("content")


def _is_separable(step: Definition) -> bool:
    """Return whether a step changes both sides of a cut before a space as if each were alone."""
    if step["type"] != "Replace":
        return step["type"] in (*_BY_CHARACTER, "Precompiled")
    pattern, content = _replacement(step)
    # Runs of spaces by one, or visible ASCII by visible ASCII.
    return (pattern, content) == (_SPACES, " ") or (
        _is_visible(pattern.get("String", "")) and _is_visible(content)
    )


def _is_separable_after_ascii(step: Definition) -> bool:
    """Return the same as `_is_separable` for cuts that follow visible ASCII."""
    return (
        _is_separable(step)
        or _replacement(step) == (_SPACES, _MARK)
        or (step["type"] == "Strip" and not step["strip_left"])
    )


def _is_visible(text: str) -> bool:
    return text != "" and set(text.encode()) <= set(VISIBLE)


def _keeps_ascii(normalizer: Any) -> bool:
    """Return whether a map keeps visible ASCII, and a space before signs that cluster with it."""
    # What a precompiled map does can only be found out by applying it.
    signs = VISIBLE.decode()
    unchanged = [text for sign in signs for text in (sign, f"{sign} {sign}", f"{sign} \u00e9")]
    if any(normalizer.normalize_str(text) != text for text in unchanged):
        return False
    # All signs and marks in one text, each after an underscore and a space: all "_ " must be left.
    joined = "".join(f"_ {sign}_" for sign in _SIGNS_AND_MARKS)
    return bool(normalizer.normalize_str(joined).count("_ ") >= len(_SIGNS_AND_MARKS))


def _keeps_spaces(normalizer: Any) -> bool:
    signed = "".join(f"{sign} _" for sign in _SIGNS_AND_MARKS)
    return bool(normalizer.normalize_str(signed).count(" _") >= len(_SIGNS_AND_MARKS))
