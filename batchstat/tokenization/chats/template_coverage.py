"""What a chat template renders, found by rendering chats of marked words.

A template decides by roles, by the fields of messages and by their position, so chats that agree in
these are rendered alike. One chat of each kind is rendered with a distinct word in every field; the
fields whose words are missing from the text are left out by the template.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

from batchstat.corpus.chat import ROLES, Message, TemplateInputs, Tool

TOOLS = "tools"
_CALLS = ("tool_calls", "function_call")
_REASONING = ("reasoning_content", "reasoning", "thinking")
_THINK, _THINK_ENDS = "<think>", "</think>"
_MOST_KINDS = 10_000

Render = Callable[[list[Message], TemplateInputs], str]


class TemplateCoverage:
    """Detector of what a template leaves out of chats; may be called by several threads."""

    def __init__(self, render: Render) -> None:
        """`render`: returns the text of a chat, given what its template gets beside it."""
        self._render = render
        self._known: dict[Hashable, frozenset[str]] = {}

    def left_out(self, messages: list[Message], inputs: TemplateInputs) -> frozenset[str]:
        """Return what of a chat is missing from its text.

        These are `tool_messages` and the like by role, `reasoning`, `tool_calls`, `function_call`
        or `tools`; nothing if the template raises on the marked words.

        Args:
            messages: the chat.
            inputs: what its template gets beside it.
        """
        kinds = tuple(tuple(_kind(*part) for part in _parts(message)) for message in messages)
        roles = tuple(message["role"] for message in messages)
        tools = tuple(map(_described, inputs.tools or ()))
        kind = (roles, kinds, tools, inputs.unread_tools, repr(inputs.settings))
        missing = self._known.get(kind)
        if missing is None:
            missing = self._find(messages, inputs)
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            self._known[kind] = missing
        return missing

    def _find(self, messages: list[Message], inputs: TemplateInputs) -> frozenset[str]:
        words = _Words()
        marked = [words.mark(message) for message in messages]
        tools = None if inputs.tools is None else [words.mark_tool(tool) for tool in inputs.tools]
        names = {TOOLS} if inputs.unread_tools else set()
        try:
            text = self._render(marked, replace(inputs, tools=tools)).lower()
        except Exception:  # a template that expects other contents may raise anything
            return frozenset(names)
        return frozenset(names | {name for word, name in words.names.items() if word not in text})


def _parts(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a message that hold content, reasoning or calls."""
    for name in ("content", *_REASONING, *_CALLS):
        if message.get(name):
            yield name, message[name]


def _kind(name: str, value: Any) -> Hashable:
    """Return everything about a field that its marking depends on."""
    if name == "content" and not isinstance(value, str):
        return name, tuple(bool(text.strip()) for text in _texts(value))
    if name == "content":
        return name, tuple(bool(each.strip()) for each in _thought_and_said(value))
    if name in _CALLS:
        return name, tuple(map(_kind_of_call, value if isinstance(value, list) else [value]))
    return name, isinstance(value, str)


def _thought_and_said(content: str) -> tuple[str, str]:
    thought, ends, said = content.rpartition(_THINK_ENDS)
    return (thought.rpartition(_THINK)[2], said) if ends else ("", content)


def _texts(parts: Any) -> list[str]:
    """Return the texts of a content that is a list of parts."""
    if not isinstance(parts, list):
        return []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str)]


def _function(call: Any) -> dict[str, Any]:
    found = call.get("function", call) if isinstance(call, dict) else {}
    return found if isinstance(found, dict) else {}


def _kind_of_call(call: Any) -> Hashable:
    function = _function(call)
    arguments = function.get("arguments")
    return bool(function.get("name")), type(arguments).__name__, bool(arguments)


def _described(tool: Tool) -> tuple[bool, bool, tuple[str, ...]]:
    """Return the fields of a tool that are texts, which say what a template may ask for."""
    function = _function(tool)
    texts = [name for name, value in function.items() if isinstance(value, str) and value]
    return "function" in tool, "description" in texts, tuple(texts[:1])


class _Words:
    """Words that occur in no template, a distinct one for each field.

    Attributes:
        names: what each word stands for.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def _new(self, name: str) -> str:
        word = f"zq{len(self.names)}xj"
        self.names[word] = name
        return word

    def mark(self, message: Message) -> Message:
        """Return a message with marked words instead of its own."""
        marked = dict(message)
        thoughts = [name for name in _REASONING if isinstance(message.get(name), str)]
        if any(message[name].strip() for name in thoughts):
            # transformers uses all of these names for reasoning, and a template reads one of them.
            marked |= dict.fromkeys(thoughts, self._new("reasoning"))
        for name in _CALLS:
            if isinstance(message.get(name), list):
                marked[name] = [self._mark_call(call, name) for call in message[name]]
            elif isinstance(message.get(name), dict):
                marked[name] = self._mark_call(message[name], name)
        content = message.get("content")
        role = message["role"] if message["role"] in ROLES else "other"
        if isinstance(content, list):
            marked["content"] = [self._mark_part(part, f"{role}_messages") for part in content]
        elif isinstance(content, str) and content.strip():
            marked["content"] = self._mark_content(content, f"{role}_messages")
        return marked

    def _mark_part(self, part: Any, name: str) -> Any:
        has_text = any(text.strip() for text in _texts([part]))
        return {**part, "text": self._new(name)} if has_text else part

    def _mark_content(self, content: str, name: str) -> str:
        thought, said = _thought_and_said(content)
        word = self._new(name) if said.strip() else ""
        # Templates such as Qwen3's take a content apart there, and may leave the thought out.
        if _THINK_ENDS not in content:
            return word
        reason = self._new("reasoning") if thought.strip() else ""
        return f"{_THINK}\n{reason}\n{_THINK_ENDS}\n\n{word}"

    def _mark_call(self, call: Any, name: str) -> Any:
        function = dict(_function(call))
        if function.get("name"):
            function["name"] = self._new(name)
        if function.get("arguments"):
            word = self._new(name)
            as_text = isinstance(function["arguments"], str)
            function["arguments"] = f'{{"{word}": "{word}"}}' if as_text else {word: word}
        if not function:
            return call
        return {**call, "function": function} if "function" in call else {**call, **function}

    def mark_tool(self, tool: Tool) -> Tool:
        """Return a tool with a word as its description, or as its name if it has none, or as the
        first of its texts.
        """
        function = dict(_function(tool))
        _, has_description, texts = _described(tool)
        fields = ["description"] if has_description else ["name"] if "name" in function else texts
        function |= {field: self._new(TOOLS) for field in fields}
        return {**tool, "function": function} if "function" in tool else {**tool, **function}
