"""Convert chats in the common formats to the one format that chat templates take."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from batchstat.errors import short

Message = dict[str, Any]
Tool = dict[str, Any]

TOOLS_COLUMN = "tools"
"""Column in which chats have the tools that they may call, beside their messages."""

SETTINGS_COLUMN = "chat_template_kwargs"
"""Column in which chats that are handed on as they are written have what else their template gets,
such as enable_thinking."""

CHAT_FORMATS = ("openai", "sharegpt")

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython")
_SHAREGPT_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "bard": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}
_OPENAI_NAMES = {"from": "role", "value": "content"}


WRITTEN = "written_role"
"""Key of a message in ShareGPT's format for the role that it is written with; human, gpt and system
have none."""


# Parameters of transformers' `apply_chat_template`, by which it would do something else than render
# these messages with this template.
_NOT_SETTINGS = {
    *("add_generation_prompt", "chat_template", "continue_final_message", "conversation"),
    *("max_length", "padding", "return_assistant_tokens_mask", "return_dict", "return_tensors"),
    *("sanitize_control_tokens", "tokenize", "tokenizer_kwargs", "tools", "truncation"),
}


class ChatError(Exception):
    """What is wrong with a chat, worded to follow the place of the chat."""


@dataclass(frozen=True)
class TemplateInputs:
    """What a template gets beside the messages of a chat.

    Attributes:
        tools: the tools that it may call; None without any.
        unread_tools: whether it has tools that are no objects, which are not handed on.
        settings: further names that the template may use, with their values.
        wrong: what of these cannot be handed on, so that the chat cannot be rendered.
    """

    tools: list[Tool] | None = None
    unread_tools: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    wrong: str = ""


NO_INPUTS = TemplateInputs()
"""Of a chat that has only messages."""


def as_chat(value: object, written_in: str | None = None) -> list[Message]:
    """Return a chat as a list of messages with `role` and `content`.

    Two formats are known: OpenAI's (`role`, `content`, which may be a list of text parts, and
    `tool_calls` or the older `function_call`) and ShareGPT's (`from`, `value`), whose roles have
    other names in OpenAI's.

    Args:
        value: the chat.
        written_in: one of `CHAT_FORMATS`, that of a chat whose messages keep their roles, contents
            and further fields, whatever these are: only the names `from` and `value` change. None
            for a chat in either format.

    Raises:
        ChatError: another format, no messages, an unknown role, neither content nor a tool call.
    """
    if not isinstance(value, list):
        raise ChatError("not a list of messages")
    if not value:
        raise ChatError("no messages")
    numbered = [(f"message {number}", message) for number, message in enumerate(value)]
    if written_in is None:
        return [_message(message, which) for which, message in numbered]
    if written_in == "sharegpt":
        # The first one decides, as it does for TRL's `is_conversational_from_value`.
        _require(("from", "value"), value[0], "message 0")
    return [_as_written(message, which, written_in) for which, message in numbered]


def template_inputs(tools: object) -> TemplateInputs:
    """Return what a template gets beside the messages: tools, given as a list of objects of any
    shape, or its JSON text.
    """
    tools = _parsed(tools)
    if tools is None or tools in ("", [], {}):
        return NO_INPUTS
    return TemplateInputs(tools) if _are_tools(tools) else TemplateInputs(unread_tools=True)


def inputs_as_written(tools: object, settings: object) -> TemplateInputs:
    """Return what a template gets beside the messages: tools, also an empty list of them, and an
    object with further names.
    """
    tools = _parsed(tools)
    if not isinstance(settings, dict):
        wrong = f"{SETTINGS_COLUMN!r} is {short(settings)} where an object is expected"
    elif unread := sorted(_NOT_SETTINGS & set(settings)):
        wrong = (
            f"{SETTINGS_COLUMN!r} has {unread[0]!r}, which is for apply_chat_template, not for the "
            "template, and is not read: remove it"
        )
    elif tools is None or _are_tools(tools):
        return TemplateInputs(tools, settings=settings)
    else:
        wrong = f"{TOOLS_COLUMN!r} is {short(tools)} where a list of objects is expected"
    return TemplateInputs(wrong=wrong)


def _parsed(tools: object) -> object:
    if isinstance(tools, str):
        with suppress(ValueError, RecursionError):
            return json.loads(tools)
    return tools


def _are_tools(tools: object) -> TypeGuard[list[Tool]]:
    return isinstance(tools, list) and all(isinstance(each, dict) for each in tools)


def _require(keys: tuple[str, ...], message: object, which: str) -> None:
    if not isinstance(message, dict):
        raise ChatError(f"{which} is not an object")
    if any(key not in message for key in keys):
        raise ChatError(f"{which} has no {' and '.join(keys)} (has: {', '.join(message)})")


def _as_written(message: Any, which: str, written_in: str) -> Message:
    fields = message
    if written_in == "sharegpt" and isinstance(message, dict):
        renamed = {_OPENAI_NAMES[key]: message[key] for key in message.keys() & _OPENAI_NAMES}
        fields = {key: message[key] for key in message if key not in _OPENAI_NAMES} | renamed
    _require(("role",), fields, which)
    if not isinstance(fields["role"], str):
        raise ChatError(f"{which} has the role {short(fields['role'])}, which is not text")
    return dict(fields)


def _message(message: object, which: str) -> Message:
    if not isinstance(message, dict):
        raise ChatError(f"{which} is not an object")
    # Columnar formats give every message all keys that any message has.
    fields = {key: value for key, value in message.items() if value is not None}
    if "from" in fields and "role" not in fields:
        role = fields.pop("from")
        content = fields.pop("value", None)
        written = {} if role in ("human", "gpt", "system") else {WRITTEN: role}
        if isinstance(role, str):
            role = _SHAREGPT_ROLES.get(role, role)
        fields = {"role": role, "content": content, **fields, **written}
    role = fields.get("role")
    if role not in ROLES:
        known = f"known: {', '.join(ROLES)}"
        if isinstance(role, str) and role in _SHAREGPT_ROLES:
            known += f"; with from and value as keys, {role} is {_SHAREGPT_ROLES[role]}"
        raise ChatError(f"{which} has the unknown role {role!r} ({known})")
    content = _text(fields.get("content"), which)
    if content is None and not (fields.get("tool_calls") or fields.get("function_call")):
        raise ChatError(f"{which} has no content")
    return {**fields, "content": content}


def _text(content: object, which: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "".join(part["text"] for part in content)
    raise ChatError(f"{which} has content that is not text")
