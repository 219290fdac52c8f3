"""Where each message ends in the text of a chat, by one rendering. Many templates are one loop over
the messages that reads only the current one and the first, as their syntax tree shows: so what is
written at the end of each pass shows where the text of the first n messages ends.
"""

import re
from functools import cache

from jinja2 import TemplateSyntaxError, nodes

from batchstat.tokenization.chats.generation_marks import parsed

EDGE = "\ufdd0"  # what `with_edges` writes after each message: no text should have it

_MESSAGES, _PROMPT = "messages", "add_generation_prompt"
_END = re.compile(r"\{%([-+]?)\s*endfor\b")
_BACKWARD = ("first", "index", "index0")
"""Attributes of `loop` that do not depend on later messages, as `last` does."""
_ELSEWHERE = (
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block),
    *(nodes.Break, nodes.Continue),
)
"""Parts of a template that use other templates, or that leave a pass of the loop before its end."""


@cache
def with_edges(source: str) -> str | None:
    """Return a template that writes `EDGE` after each message; None if it may read later ones."""
    try:
        tree = parsed(source)
    except TemplateSyntaxError:
        return None
    loop = _loop_of_messages(tree)
    if loop is None or EDGE in source:
        return None
    # Make `tree` that of the new template: EDGE ends the loop's body, in an `if` that is true.
    edge = nodes.Output([nodes.TemplateData(EDGE)])
    loop.body.append(nodes.If(nodes.Const(True), [edge], [], []))
    # A template may have several loops: try EDGE before each `endfor` until the tree is right.
    for end_tag in _END.finditer(source):
        # EDGE is in a block: jinja2 then treats the whitespace around it as that around `endfor`.
        block = f"{{%{end_tag[1]} if true %}}{EDGE}{{% endif %}}"
        changed = source[: end_tag.start()] + block + source[end_tag.start() :]
        if parsed(changed) == tree:
            return changed
    return None


def _loop_of_messages(tree: nodes.Template) -> nodes.For | None:
    """Return the loop over the messages of a chat template."""
    messages = nodes.Name(_MESSAGES, "load")
    loops = [
        (i, node)
        for i, node in enumerate(tree.body)
        if isinstance(node, nodes.For) and node.iter == messages
    ]
    if len(loops) != 1:
        return None
    [(position, loop)] = loops
    before, after = tree.body[:position], tree.body[position + 1 :]
    # A loop with a condition, an `else` or recursion does not have one pass for each message.
    has_pass_per_message = not (loop.else_ or loop.test is not None or loop.recursive)
    ignores_later = all(map(_ignores_later, (*before, loop.target, *loop.body)))
    return loop if has_pass_per_message and ignores_later and all(map(_is_prompt, after)) else None


def _ignores_later(node: nodes.Node, is_inner: bool = False) -> bool:
    """Return whether nothing in a node depends on messages after the current one."""
    if isinstance(node, _ELSEWHERE):  # it uses another template, or ends a pass of the loop early
        return False
    # `name.attribute` or `name[key]`: whether it may be read depends on the name and the key.
    if isinstance(node, nodes.Getitem | nodes.Getattr) and isinstance(node.node, nodes.Name):
        # None for a key that is not a constant.
        key = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        # Of the list of messages, only the first one.
        if node.node.name == _MESSAGES:
            return key == 0 and not isinstance(key, bool)  # in Python, False equals 0
        # Of the loop over messages, only what does not depend on later ones.
        if node.node.name == "loop" and not is_inner:
            return key in _BACKWARD
    # Names that must not be used by themselves: the whole list, the whole loop, and whether a
    # generation prompt is asked for, which differs between a beginning and the whole chat.
    if isinstance(node, nodes.Name):
        return node.name not in (_MESSAGES, _PROMPT) and (is_inner or node.name != "loop")
    if isinstance(node, nodes.For):
        # In the body of this inner loop, `loop` is the inner one; in what it loops over, it is not.
        outside = [node.target, node.iter, *filter(None, [node.test])]
        inside = [*node.body, *node.else_]
        return all(_ignores_later(part, is_inner) for part in outside) and all(
            _ignores_later(part, is_inner=True) for part in inside
        )
    return all(_ignores_later(child, is_inner) for child in node.iter_child_nodes())


def _is_prompt(node: nodes.Node) -> bool:
    """Return whether a node writes the generation prompt, the same for all chats."""
    return (
        isinstance(node, nodes.If)
        and node.test == nodes.Name(_PROMPT, "load")
        and not node.elif_
        and not node.else_
        and all(isinstance(child, nodes.Output) for child in node.body)
        and all(_is_constant(text) for output in node.body for text in output.iter_child_nodes())
    )


def _is_constant(node: nodes.Node) -> bool:
    kinds = (nodes.Const, nodes.TemplateData, nodes.Add, nodes.Concat)
    return isinstance(node, kinds) and all(map(_is_constant, node.iter_child_nodes()))
