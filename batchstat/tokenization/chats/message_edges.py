"""Where each message ends in what a chat template renders, by one rendering.

A template that goes through the messages once, and looks at none but the first and the current one,
renders the first messages of a chat as the beginning of the whole. Its syntax tree shows whether it
is one. Then a mark at the end of its loop gives what rendering each beginning by itself would.
"""

import re
from functools import cache
from typing import TypeGuard

from jinja2 import TemplateSyntaxError, nodes

from batchstat.tokenization.chats.generation_marks import parsed

EDGE = "\ufdd0"
"""What `with_edges` adds after each message: a noncharacter, which no text should have."""

_MESSAGES, _PROMPT = "messages", "add_generation_prompt"
_END = re.compile(r"\{%([-+]?)\s*endfor\b")
_BACKWARD = ("first", "index", "index0")
"""What a loop knows of the messages so far."""
_ELSEWHERE = (
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block),
    *(nodes.Break, nodes.Continue),
)


@cache
def with_edges(source: str) -> str | None:
    """Return a chat template that writes `EDGE` after each message, whatever comes after it; None
    if its syntax does not show that messages are rendered without regard to later ones.
    """
    try:
        loop = _loop_of_messages(parsed(source))
    except TemplateSyntaxError:
        return None
    if loop is None or EDGE in source:
        return None
    expected = parsed(source)
    ended = nodes.Output([nodes.TemplateData(EDGE)])
    expected_loop = next(filter(_is_loop, expected.body))
    expected_loop.body.append(nodes.If(nodes.Const(True), [ended], [], []))
    for end in _END.finditer(source):
        # A block, so that the whitespace around it is treated as that around `endfor`.
        mark = f"{{%{end[1]} if true %}}{EDGE}{{% endif %}}"
        marked = source[: end.start()] + mark + source[end.start() :]
        if parsed(marked) == expected:
            return marked
    return None


def _is_loop(node: nodes.Node) -> TypeGuard[nodes.For]:
    return isinstance(node, nodes.For) and node.iter == nodes.Name(_MESSAGES, "load")


def _loop_of_messages(tree: nodes.Template) -> nodes.For | None:
    """Return the loop over the messages; None unless later ones make no difference."""
    loops = [(i, node) for i, node in enumerate(tree.body) if _is_loop(node)]
    if len(loops) != 1:
        return None
    [(at, loop)] = loops
    before, after = tree.body[:at], tree.body[at + 1 :]
    if loop.else_ or loop.test is not None or loop.recursive or not all(map(_is_prompt, after)):
        return None
    looks_back = all(map(_looks_back, (*before, loop.target, *loop.body)))
    return loop if looks_back else None


def _looks_back(node: nodes.Node, is_inner: bool = False) -> bool:
    """Return whether nothing in a node depends on messages after the current one.

    Args:
        node: before the loop over the messages, or in it.
        is_inner: whether it is in a loop of its own, whose `loop` that is.
    """
    if isinstance(node, _ELSEWHERE):
        return False
    if isinstance(node, nodes.Getitem | nodes.Getattr) and isinstance(node.node, nodes.Name):
        key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if node.node.name == _MESSAGES:
            return key == 0 and not isinstance(key, bool)
        if node.node.name == "loop" and not is_inner:
            return key in _BACKWARD
    if isinstance(node, nodes.Name):
        return node.name not in (_MESSAGES, _PROMPT) and (is_inner or node.name != "loop")
    if isinstance(node, nodes.For):
        outside = [node.target, node.iter, *filter(None, [node.test])]
        inside = [*node.body, *node.else_]
        return all(_looks_back(each, is_inner) for each in outside) and all(
            _looks_back(each, True) for each in inside
        )
    return all(_looks_back(each, is_inner) for each in node.iter_child_nodes())


def _is_prompt(node: nodes.Node) -> bool:
    """Return whether a node is the generation prompt, the same for all chats."""
    return (
        isinstance(node, nodes.If)
        and node.test == nodes.Name(_PROMPT, "load")
        and not node.elif_
        and not node.else_
        and all(isinstance(each, nodes.Output) for each in node.body)
        and all(_is_fixed(each) for output in node.body for each in output.iter_child_nodes())
    )


def _is_fixed(node: nodes.Node) -> bool:
    kinds = (nodes.Const, nodes.TemplateData, nodes.Add, nodes.Concat)
    return isinstance(node, kinds) and all(map(_is_fixed, node.iter_child_nodes()))
