"""Convert chats in the common formats to the one format that chat templates take."""

import json
from typing import Any

Message = dict[str, Any]
Tool = dict[str, Any]

TOOLS_COLUMN = "tools"
"""Columns in which chats have the tools that they may call, beside their messages."""

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


WRITTEN = "written_role"
"""Key of a message in ShareGPT's format for the role that it is written with; human, gpt and system
have none."""


class ChatError(Exception):
    """What is wrong with a chat, worded to follow the place of the chat."""


def as_chat(value: object, *, keep_roles: bool = False) -> list[Message]:
    """Return a chat as a list of messages with `role` and `content`.

    Two formats are known: OpenAI's (`role`, `content`, which may be a list of text parts, and
    `tool_calls`) and ShareGPT's (`from`, `value`), whose roles have other names in OpenAI's.

    Args:
        value: the chat.
        keep_roles: whether ShareGPT's roles keep their names, whatever these are.

    Raises:
        ChatError: another format, no messages, an unknown role, neither content nor a tool call.
    """
    if not isinstance(value, list):
        raise ChatError("not a list of messages")
    if not value:
        raise ChatError("no messages")
    return [
        _message(message, f"message {number}", keep_roles) for number, message in enumerate(value)
    ]


def as_tools(value: object) -> list[Tool] | None:
    """Return the tools that a chat may call, given as a list or its JSON text; [] without any.

    None for anything else than objects, which transformers hands to a template whatever their
    shape.
    """
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if value is None or value in ("", [], {}):
        return []
    is_known = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    return list(value) if is_known else None  # type: ignore[call-overload]


def _message(message: object, which: str, keep_roles: bool) -> Message:
    if not isinstance(message, dict):
        raise ChatError(f"{which} is not an object")
    # Columnar formats give every message all keys that any message has.
    fields = {key: value for key, value in message.items() if value is not None}
    if "from" in fields and "role" not in fields:
        role = fields.pop("from")
        content = fields.pop("value", None)
        written = {} if role in ("human", "gpt", "system") or keep_roles else {WRITTEN: role}
        if isinstance(role, str) and not keep_roles:
            role = _SHAREGPT_ROLES.get(role, role)
        fields = {"role": role, "content": content, **fields, **written}
        is_known = role in ROLES or (keep_roles and isinstance(role, str))
    else:
        is_known = fields.get("role") in ROLES
    role = fields.get("role")
    if not is_known:
        raise ChatError(f"{which} has the unknown role {role!r} ({_known_roles(role)})")
    content = _text(fields.get("content"), which)
    if content is None and not fields.get("tool_calls"):
        raise ChatError(f"{which} has no content")
    return {**fields, "content": content}


def _known_roles(role: object) -> str:
    known = f"known: {', '.join(ROLES)}"
    meant = _SHAREGPT_ROLES.get(role) if isinstance(role, str) else None
    return known if meant is None else f"{known}; with from and value as keys, {role} is {meant}"


def _text(content: object, which: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "".join(part["text"] for part in content)
    raise ChatError(f"{which} has content that is not text")
