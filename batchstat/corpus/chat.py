"""Convert chats in the common formats to the one format that chat templates take."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from batchstat.words import short

Message = dict[str, Any]
Tool = dict[str, Any]

TOOLS_COLUMN = "tools"  # the column with the tools that chats may call, beside their messages
SETTINGS_COLUMN = "chat_template_kwargs"
"""Column with what else the template of chats as they are written gets, such as enable_thinking."""

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

# Parameters of `apply_chat_template` that say something else than how messages are rendered.
_NOT_SETTINGS = {
    *("add_generation_prompt", "chat_template", "continue_final_message", "conversation"),
    *("max_length", "padding", "return_assistant_tokens_mask", "return_dict", "return_tensors"),
    *("sanitize_control_tokens", "tokenize", "tokenizer_kwargs", "tools", "truncation"),
}


class ChatError(Exception):
    """What is wrong with a chat, worded to follow the place of the chat."""


@dataclass(frozen=True)
class TemplateInputs:
    """What a template gets beside the messages of a chat."""

    tools: list[Tool] | None = None  # the tools that the assistant may call; None without any
    unread_tools: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    wrong: str = ""  # message about tools or settings that make the chat unreadable


NO_INPUTS = TemplateInputs()  # the inputs of a chat that has only messages


def as_chat(value: object, kept_format: str | None = None) -> list[Message]:
    """Return a chat as messages with `role` and `content`, of OpenAI's format or ShareGPT's, whose
    keys are `from` and `value`, and whose `human` is OpenAI's `user`. Raises ChatError: another
    format, no messages, an unknown role, neither content nor a tool call.
    """
    if not isinstance(value, list):
        raise ChatError("not a list of messages")
    if not value:
        raise ChatError("no messages")
    if kept_format is None:
        return [_translated(message, f"message {i}") for i, message in enumerate(value)]
    if kept_format == "sharegpt":
        # Only the first message is checked, as by TRL's `is_conversational_from_value`.
        _require_keys(("from", "value"), value[0], "message 0")
    return [_as_written(message, f"message {i}", kept_format) for i, message in enumerate(value)]


def inputs_from_tools(tools: object) -> TemplateInputs:
    """Return what a template gets beside the messages of a chat: its tools."""
    tools = parsed_text(tools)
    # Files write a chat without tools in several ways.
    if tools is None or tools in ("", [], {}):
        return NO_INPUTS
    return TemplateInputs(tools) if _are_tools(tools) else TemplateInputs(unread_tools=True)


def inputs_as_written(tools: object, settings: object) -> TemplateInputs:
    """Return what a template gets beside a chat that is handed on as it is written; an empty list
    of tools is, too, as TRL does. `wrong` says why nothing can be handed on.
    """
    tools = parsed_text(tools)
    if not isinstance(settings, dict):
        message = f"{SETTINGS_COLUMN!r} is {short(settings)} where an object is expected"
        return TemplateInputs(wrong=message)
    not_for_template = sorted(_NOT_SETTINGS & set(settings))
    if not_for_template:
        return TemplateInputs(
            wrong=f"{SETTINGS_COLUMN!r} has {not_for_template[0]!r}, which is for "
            "apply_chat_template, not for the template, and is not read: remove it"
        )
    if tools is None or _are_tools(tools):
        return TemplateInputs(tools, settings=settings)
    message = f"{TOOLS_COLUMN!r} is {short(tools)} where a list of objects is expected"
    return TemplateInputs(wrong=message)


def parsed_text(value: Any) -> Any:
    """Return JSON text as its value; text that is not valid JSON, and all else, as it is."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _are_tools(tools: object) -> TypeGuard[list[Tool]]:
    return isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)


def _require_keys(keys: tuple[str, ...], message: object, shown_as: str) -> None:
    if not isinstance(message, dict):
        raise ChatError(f"{shown_as} is not an object")
    if any(key not in message for key in keys):
        raise ChatError(f"{shown_as} has no {' and '.join(keys)} (has: {', '.join(message)})")


def _as_written(message: Any, shown_as: str, kept_format: str) -> Message:
    """Return a message as it is written, with the keys of ShareGPT renamed to OpenAI's."""
    fields = message
    # What is no object is left to `_require_keys`, which raises.
    if kept_format == "sharegpt" and isinstance(message, dict):
        fields = {key: value for key, value in message.items() if key not in _OPENAI_NAMES}
        fields |= {name: message[key] for key, name in _OPENAI_NAMES.items() if key in message}
    _require_keys(("role",), fields, shown_as)
    if not isinstance(fields["role"], str):
        raise ChatError(f"{shown_as} has the role {short(fields['role'])}, which is not text")
    return dict(fields)


def _translated(message: object, shown_as: str) -> Message:
    """Return a message of either format with a role of OpenAI's and its content as one text."""
    if not isinstance(message, dict):
        raise ChatError(f"{shown_as} is not an object")
    # Columnar formats give every message all keys that any message has, with null for the absent.
    fields = {key: value for key, value in message.items() if value is not None}
    # ShareGPT's format.
    if "from" in fields and "role" not in fields:
        role = fields.pop("from")
        openai_role = _SHAREGPT_ROLES.get(role, role) if isinstance(role, str) else role
        fields = {"role": openai_role, "content": fields.pop("value", None), **fields}
    role = fields.get("role")
    if role not in ROLES:
        known = f"known: {', '.join(ROLES)}"
        # A role of ShareGPT under OpenAI's key `role`: the two formats are mixed.
        if isinstance(role, str) and role in _SHAREGPT_ROLES:
            known += f"; with from and value as keys, {role} is {_SHAREGPT_ROLES[role]}"
        raise ChatError(f"{shown_as} has the unknown role {role!r} ({known})")
    content = fields.get("content")
    # As one text, with text parts joined.
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        content = "".join(part["text"] for part in content)
    if content is not None and not isinstance(content, str):
        raise ChatError(f"{shown_as} has content that is not text")
    # A message that only calls a tool has no content.
    if content is None and not (fields.get("tool_calls") or fields.get("function_call")):
        raise ChatError(f"{shown_as} has no content")
    return {**fields, "content": content}
