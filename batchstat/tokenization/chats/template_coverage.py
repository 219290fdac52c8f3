"""What a chat template leaves out of chats. It decides by the roles, fields and positions of
messages, so one chat of each kind is rendered with a distinct made-up word in each field: what is
missing from the text is left out.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from batchstat.corpus.chat import ROLES, Message, TemplateInputs, Tool

TOOLS = "tools"
_CALLS = ("tool_calls", "function_call")  # fields of a message that hold calls of tools
_REASONING = ("reasoning_content", "reasoning", "thinking")  # fields with reasoning
_THINK, _THINK_ENDS = "<think>", "</think>"  # what encloses reasoning inside a content

Render = Callable[[list[Message], TemplateInputs], str]


class TemplateCoverage:
    """Finds what a template leaves out of chats; may be called by several threads."""

    def __init__(self, render: Render) -> None:
        self._render = render
        # For each kind of chats that was rendered, the names of what is left out.
        self._missing_by_kind: dict[Hashable, frozenset[str]] = {}

    def left_out(self, messages: list[Message], inputs: TemplateInputs) -> frozenset[str]:
        """Return what the template leaves out of a chat, such as `tool_messages` by role,
        `reasoning`, `tool_calls` or `tools`; nothing if the template raises on made-up words.
        """
        # The kind of this chat: everything that may change which fields the template renders.
        roles = tuple(message["role"] for message in messages)
        names = ("content", *_REASONING, *_CALLS)
        fields = tuple(
            tuple(_kind(name, message[name]) for name in names if message.get(name))
            for message in messages
        )
        tools = tuple(map(_kind_of_tool, inputs.tools or ()))
        kind = (roles, fields, tools, inputs.unread_tools, repr(inputs.settings))
        missing = self._missing_by_kind.get(kind)
        if missing is None:  # this is the first chat of its kind
            missing = self._find(messages, inputs)
            if len(self._missing_by_kind) >= 10_000:  # bounds the memory
                self._missing_by_kind.clear()
            self._missing_by_kind[kind] = missing
        return missing

    def _find(self, messages: list[Message], inputs: TemplateInputs) -> frozenset[str]:
        """Render a chat with made-up words, and return the names of those that are missing."""
        words = _Words()
        marked = [words.mark(message) for message in messages]
        tools = None if inputs.tools is None else [words.mark_tool(tool) for tool in inputs.tools]
        # Tools that are not objects are never passed to the template.
        names = {TOOLS} if inputs.unread_tools else set()
        try:
            # A template may change the case of what it writes.
            text = self._render(marked, replace(inputs, tools=tools)).lower()
        except Exception:  # a template that expects other contents may raise anything
            return frozenset(names)
        return frozenset(names | {name for word, name in words.names.items() if word not in text})


def _kind(name: str, value: Any) -> Hashable:
    """Return what two fields of one name must have in common to be rendered alike."""
    if name == "content":
        # A content that is not a text is a list of parts, with texts in some of them.
        texts = _split_thought(value) if isinstance(value, str) else _texts(value)
        return name, tuple(bool(text.strip()) for text in texts)
    if name in _CALLS:
        return name, tuple(map(_kind_of_call, value if isinstance(value, list) else [value]))
    return name, isinstance(value, str)  # reasoning: it gets a word only if it is text


def _split_thought(content: str) -> tuple[str, str]:
    # The last </think> and the last <think> before it count; `ends` is empty without </think>.
    thought, ends, said = content.rpartition(_THINK_ENDS)
    return (thought.rpartition(_THINK)[2], said) if ends else ("", content)


def _texts(parts: Any) -> list[str]:
    if not isinstance(parts, list):
        return []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str)]


def _function(call: Any) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, dict) else {}
    return function if isinstance(function, dict) else {}


def _kind_of_call(call: Any) -> Hashable:
    function = _function(call)
    arguments = function.get("arguments")
    return bool(function.get("name")), type(arguments).__name__, bool(arguments)


def _kind_of_tool(tool: Tool) -> tuple[bool, bool, tuple[str, ...]]:
    function = _function(tool)
    texts = [name for name, value in function.items() if isinstance(value, str) and value]
    return "function" in tool, "description" in texts, tuple(texts[:1])


class _Words:
    """Puts made-up words, a distinct one for each field, into messages and tools."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def _new(self, name: str) -> str:
        # zq0xj, zq1xj, ...: in no template, and none is a part of another.
        word = f"zq{len(self.names)}xj"
        self.names[word] = name
        return word

    def mark(self, message: Message) -> Message:
        """Return a message with made-up words instead of its own."""
        marked = dict(message)
        reasoning_fields = [name for name in _REASONING if isinstance(message.get(name), str)]
        if any(message[name].strip() for name in reasoning_fields):
            # One word in all, which are names of the same: a template reads one of them.
            marked |= dict.fromkeys(reasoning_fields, self._new("reasoning"))
        for name in _CALLS:
            # The field has a list of calls, or one call.
            if isinstance(message.get(name), list):
                marked[name] = [self._mark_call(call, name) for call in message[name]]
            elif isinstance(message.get(name), dict):
                marked[name] = self._mark_call(message[name], name)
        content = message.get("content")
        role = message["role"] if message["role"] in ROLES else "other"
        if isinstance(content, list):
            marked["content"] = [
                # Unchanged if it has no text.
                {**part, "text": self._new(f"{role}_messages")}
                if any(text.strip() for text in _texts([part]))
                else part
                for part in content
            ]
        elif isinstance(content, str) and content.strip():
            marked["content"] = self._mark_content(content, f"{role}_messages")
        return marked

    def _mark_content(self, content: str, name: str) -> str:
        """Return a word instead of a content, with another one for the reasoning inside it."""
        thought, answer = _split_thought(content)
        word = self._new(name) if answer.strip() else ""
        if _THINK_ENDS not in content:
            return word
        # Templates such as Qwen3's split a content at </think>, and may leave the reasoning out.
        thought_word = self._new("reasoning") if thought.strip() else ""
        return f"{_THINK}\n{thought_word}\n{_THINK_ENDS}\n\n{word}"

    def _mark_call(self, call: Any, name: str) -> Any:
        """Return a call with words as the name of its function and as its arguments."""
        function = dict(_function(call))
        if function.get("name"):
            function["name"] = self._new(name)
        if function.get("arguments"):
            word = self._new(name)
            # Arguments are a JSON object, as text or parsed: a template may expect either.
            as_text = isinstance(function["arguments"], str)
            function["arguments"] = f'{{"{word}": "{word}"}}' if as_text else {word: word}
        if not function:  # not in a form that is known
            return call
        return {**call, "function": function} if "function" in call else {**call, **function}

    def mark_tool(self, tool: Tool) -> Tool:
        """Return a tool with a word as its description, or as its name or first text."""
        function = dict(_function(tool))
        _, has_description, first_text = _kind_of_tool(tool)
        if has_description:
            fields: tuple[str, ...] = ("description",)
        else:
            fields = ("name",) if "name" in function else first_text
        function |= {field: self._new(TOOLS) for field in fields}
        return {**tool, "function": function} if "function" in tool else {**tool, **function}
