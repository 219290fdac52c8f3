"""What a chat template marks with `{% generation %}`, by an ordinary rendering.

transformers renders such a template piece by piece, to know where it is when a marked part begins.
Where marked parts go straight to the text, characters around them say the same.
"""

import re
from functools import cache
from importlib.metadata import version

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from batchstat.tokenization.token_positions import Tokens

BEGIN, END = "\ufdd1", "\ufdd2"
"""What `with_characters` writes around marked parts: noncharacters, which no text should have."""

_TAG = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")
_BUFFERS = (nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.AssignBlock, nodes.Block)
"""What a template may put a part into without writing it."""


@cache
def with_characters(source: str) -> str | None:
    """Return a chat template that writes `BEGIN` and `END` around marked parts; None if these may
    not be where they are rendered, or what they contain may differ.
    """
    if BEGIN in source or END in source:
        return None
    marked = _TAG.sub(_replaced, source)
    try:
        if parsed(marked) != (expected := parsed(source)):
            return None
    except TemplateSyntaxError:
        return None
    return marked if _writes_at_once(expected) else None


def find_marked(text: str) -> tuple[str, list[tuple[int, int]]] | None:
    """Return a text without the characters, and the ranges between them; None if a chat has some
    of its own.
    """
    parts = re.split(f"([{BEGIN}{END}])", text)
    if parts[1::4] != [BEGIN] * len(parts[1::4]) or parts[3::4] != [END] * len(parts[1::4]):
        return None
    position, ranges = 0, []
    for i, part in enumerate(parts[::2]):
        if i % 2:
            ranges.append((position, position + len(part)))
        position += len(part)
    return "".join(parts[::2]), ranges


def mask_tokens(tokens: Tokens, ranges: list[tuple[int, int]]) -> bytes:
    """Return 1 for each token that has characters of a range, and 0 for others."""
    mask = bytearray(len(tokens))
    for begin, end in ranges:
        first, stop = tokens.overlapping(begin, end)
        mask[first:stop] = b"\1" * (stop - first)
    return bytes(mask)


def mask_marked(tokens: Tokens, ranges: list[tuple[int, int]]) -> bytes:
    """Return 1 for each token that transformers takes for marked, and 0 for others.

    Before version 5.24, of a character in several tokens at the end of a range only the first
    token is, and an empty range is the rest of the text.

    Source: `apply_chat_template` of src/transformers/tokenization_utils_base.py, transformers 5.24
    and 5.23.
    """
    if _version() >= (5, 24):
        return mask_tokens(tokens, ranges)
    mask = bytearray(len(tokens))
    for begin, end in ranges:
        first, last = tokens.position(begin), tokens.position(end - 1)
        if first is None:
            break
        stop = last + 1 if last else len(tokens)
        mask[first:stop] = b"\1" * max(stop - first, 0)
    return bytes(mask)


@cache
def _version() -> tuple[int, ...]:
    return tuple(map(int, version("transformers").split(".")[:2]))


class Generation(Extension):
    """The tag, parsed as what `_replaced` makes of it."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the part up to the tag that ends it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        begin, end = (nodes.Output([nodes.TemplateData(each)]) for each in (BEGIN, END))
        always = nodes.Const(True)
        return nodes.If(always, [begin, nodes.If(always, body, [], []), end], [], [], lineno=line)


def _replaced(tag: re.Match[str]) -> str:
    # Blocks, so that the whitespace around them is treated as that around the tag.
    before, is_end, after = tag.groups()
    if is_end:
        return f"{{%{before} endif %}}{END}{{% endif {after}%}}"
    return f"{{%{before} if true %}}{BEGIN}{{% if true {after}%}}"


def parsed(source: str) -> nodes.Template:
    """Return the syntax tree of a chat template as transformers has it, whitespace included."""
    return Environment(  # noqa: S701 - nothing is rendered
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    ).parse(source)


def _writes_at_once(tree: nodes.Template) -> bool:
    """Return whether all marked parts are written where they are rendered, and set nothing."""
    loops = [node for node in tree.find_all(nodes.For) if node.recursive]
    if any(_parts(node) for node in (*tree.find_all(_BUFFERS), *loops)):
        return False
    # Its tag keeps inside a part what that sets, and where it leaves a loop.
    kept_inside = (nodes.Assign, nodes.AssignBlock, nodes.Break, nodes.Continue)
    return not any(_parts(part) or list(part.find_all(kept_inside)) for part in _parts(tree))


def _parts(tree: nodes.Node) -> list[nodes.Node]:
    """Return what marked parts became."""
    return [
        node.body[1]
        for node in tree.find_all(nodes.If)
        if node.body and node.body[0] == nodes.Output([nodes.TemplateData(BEGIN)])
    ]
