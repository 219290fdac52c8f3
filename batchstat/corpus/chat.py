"""Chats in the shapes that people keep them in, as the one shape that chat templates take."""

from typing import Any

Message = dict[str, Any]

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


class ChatError(Exception):
    """What is wrong with a chat, in words that follow the place it stands in."""


def as_chat(value: object) -> list[Message]:
    """A chat as a list of messages with `role` and `content`.

    Two shapes are known: OpenAI's (`role`, `content`, which may be a list of text parts, and
    `tool_calls`) and ShareGPT's (`from`, `value`).

    Raises:
        ChatError: another shape, no message, an unknown role, no content and no tool call.
    """
    if not isinstance(value, list):
        raise ChatError("no list of messages")
    if not value:
        raise ChatError("no message")
    return [_message(message, f"message {number}") for number, message in enumerate(value)]


def _message(message: object, which: str) -> Message:
    if not isinstance(message, dict):
        raise ChatError(f"{which} is no object")
    # Columnar formats give every message every key that any of them has.
    known = {key: value for key, value in message.items() if value is not None}
    if "from" in known and "role" not in known:
        role = known.pop("from")
        content = known.pop("value", None)
        role = _SHAREGPT_ROLES.get(role, role) if isinstance(role, str) else role
        known = {"role": role, "content": content, **known}
    role = known.get("role")
    if role not in ROLES:
        raise ChatError(f"{which} has the unknown role {role!r} (known: {', '.join(ROLES)})")
    content = _text(known.get("content"), which)
    if content is None and not known.get("tool_calls"):
        raise ChatError(f"{which} has no content")
    return {**known, "content": content}


def _text(content: object, which: str) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "".join(part["text"] for part in content)
    raise ChatError(f"{which} has content that is no text")
