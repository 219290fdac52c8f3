"""Find what a chat template marks with `{% generation %}`, by an ordinary rendering: transformers
renders it piece by piece. If marked parts are written straight to the text, a special character
before and after each says the same.
"""

import re
from functools import cache
from importlib.metadata import version

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from batchstat.tokenization.token_positions import Tokens

BEGIN, END = "\ufdd1", "\ufdd2"
"""Noncharacters of Unicode, which no text should have, written before and after marked parts."""

_TAG = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
_BUFFERS = (nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.AssignBlock, nodes.Block)
"""Blocks whose content a template may keep, change or write later, instead of writing it."""


@cache
def with_begin_and_end(source: str) -> str | None:
    """Return a template with `BEGIN` and `END` around marked parts; None if that changes text."""
    if BEGIN in source or END in source:
        return None
    replaced = _TAG.sub(_replace_tag, source)
    try:
        # `parsed` reads a tag of the source as what `_replace_tag` writes for it, so both syntax
        # trees are equal. They differ where what only looks like a tag was replaced, as in quotes.
        tree = parsed(source)
        is_right = parsed(replaced) == tree
    except TemplateSyntaxError:
        return None
    return replaced if is_right and _writes_marked_parts_at_once(tree) else None


def find_marked(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """Return a text without `BEGIN` and `END`, and the ranges between; None if a chat has them."""
    # The brackets make split keep the separators: [text, BEGIN, marked text, END, text, ...].
    split = re.split(f"([{BEGIN}{END}])", text)
    pieces, separators = split[::2], split[1::2]
    if separators != [BEGIN, END] * (len(separators) // 2):
        return None
    position, ranges = 0, []
    for i, piece in enumerate(pieces):
        if i % 2:  # every second piece is marked
            ranges.append((position, position + len(piece)))
        position += len(piece)
    return "".join(pieces), ranges


def mask_tokens(tokens: Tokens, ranges: list[tuple[int, int]]) -> bytes:
    """Return a mask of one text: 1 for a token that has a character of a range, 0 for others."""
    mask = bytearray(len(tokens))
    for begin, end in ranges:
        first, stop = tokens.overlapping(begin, end)
        mask[first:stop] = b"\1" * (stop - first)
    return bytes(mask)


def mask_marked(tokens: Tokens, ranges: list[tuple[int, int]]) -> bytes:
    """Return a mask of one text: 1 for a token that the installed transformers takes for marked.
    Before 5.24, it looked only for the tokens of a range's first and last character, the first of
    several; where the latter was not found, or was token 0, it marked the rest. Source:
    `apply_chat_template` of src/transformers/tokenization_utils_base.py, 5.24 and 5.23.
    """
    if _version() >= (5, 24):
        return mask_tokens(tokens, ranges)
    mask = bytearray(len(tokens))
    for begin, end in ranges:
        first, last = tokens.position(begin), tokens.position(end - 1)
        if first is None:  # for transformers, the text was truncated before this range
            break
        stop = last + 1 if last else len(tokens)  # 0 counts as not found, as in transformers
        mask[first:stop] = b"\1" * max(stop - first, 0)
    return bytes(mask)


@cache
def _version() -> tuple[int, ...]:
    return tuple(map(int, version("transformers").split(".")[:2]))


class Generation(Extension):
    """The `{% generation %}` tag, parsed to the same syntax tree as what `_replace_tag` writes."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the syntax tree of a marked part, up to `{% endgeneration %}`."""
        line = next(parser.stream).lineno  # steps over the name of the tag
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        begin, end = (nodes.Output([nodes.TemplateData(each)]) for each in (BEGIN, END))
        always = nodes.Const(True)
        # The arguments of an `if` are its condition, its content, its `elif` parts and its `else`.
        return nodes.If(always, [begin, nodes.If(always, body, [], []), end], [], [], lineno=line)


def _replace_tag(tag: re.Match[str]) -> str:
    # {%- generation %} becomes {%- if true %} BEGIN {% if true %}, and its end tag two `endif`.
    # Blocks, because jinja2 then treats the whitespace around them as that around the tag.
    # The signs that strip whitespace (- or +) on both sides, and whether it is the end tag.
    left_sign, is_end, right_sign = tag.groups()
    if is_end:
        return f"{{%{left_sign} endif %}}{END}{{% endif {right_sign}%}}"
    return f"{{%{left_sign} if true %}}{BEGIN}{{% if true {right_sign}%}}"


def parsed(source: str) -> nodes.Template:
    """Return the syntax tree of a chat template as transformers has it, whitespace included."""
    return Environment(  # noqa: S701 - nothing is rendered
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    ).parse(source)


def _writes_marked_parts_at_once(tree: nodes.Template) -> bool:
    """Return whether all marked parts go straight to the text, and change nothing outside."""
    recursive_loops = [node for node in tree.find_all(nodes.For) if node.recursive]
    # What is rendered in these may be changed, or written somewhere else or not at all.
    if any(_marked_parts(node) for node in (*tree.find_all(_BUFFERS), *recursive_loops)):
        return False
    # In transformers, a marked part is a scope of its own: a variable that it sets is not set
    # outside, and it cannot leave a loop. Between BEGIN and END it could do both.
    effects = (nodes.Assign, nodes.AssignBlock, nodes.Break, nodes.Continue)
    parts = _marked_parts(tree)
    # Nor may a marked part have another one inside.
    return not any(list(part.find_all(effects)) or _marked_parts(part) for part in parts)


def _marked_parts(tree: nodes.Node) -> list[nodes.Node]:
    """Return the syntax trees of all marked parts: what is behind `BEGIN`, in the same block."""
    return [
        node.body[1]
        for node in tree.find_all(nodes.If)
        if node.body and node.body[0] == nodes.Output([nodes.TemplateData(BEGIN)])
    ]
