"""Words of messages: values and counts, text that would move a terminal, options by their names."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from reprlib import Repr

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMANDS = re.compile(r"##(?=\w*\[)")
"""What Azure Pipelines, TeamCity and older GitHub runners take for a command anywhere in a line."""
_COMMAND_LINES = re.compile(r"(?m)^([^\S\n]*):(?=:)")
"""What GitHub Actions takes for a command: its runner trims the whitespace before it."""

_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def short(value: object) -> str:
    """Return the `repr` of any value, shortened for a message."""
    try:
        return _short.repr(value)
    except ValueError:
        return "a number of thousands of digits"


def counted(number: int, word: str, plural: str = "") -> str:
    """Return a number with its noun, whose plural takes an s unless given."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def printable(text: str) -> str:
    """Return text that may contain the user's data, on one line and with everything escaped that
    moves a terminal's cursor or that a CI runner takes for a command.
    """
    return _without_marks(_CONTROLS.sub(lambda match: repr(match[0])[1:-1], text))


def without_commands(text: str) -> str:
    """Return lines for a stream with everything escaped that a CI runner takes for a command. Line
    starts are known only here, as a screen may be wrapped anywhere. The escapes mean the same
    character in JSON, TOML and Python.
    """
    return _COMMAND_LINES.sub(r"\1\\u003a", _without_marks(text))


def _without_marks(text: str) -> str:
    return _COMMANDS.sub(r"#\\u0023", text)


_ON_COMMAND_LINE: ContextVar[bool] = ContextVar("_ON_COMMAND_LINE", default=False)
_OPTION = re.compile(
    r"(?P<command>\b(?:batchstat|hf|pip|python) [a-z](?:(?! and )[^,;:()])*)"
    r"|(?<![\w/'\"-])--(?P<name>[a-z][a-z-]*)"
    r"(?: (?P<value>'[^']+'|(?:[^\s,;:()]|:(?=\S))+))?"
)
"""A command line, whose flags stay, or a flag with the word after it."""
_NO_VALUES = {
    *("a", "alone", "and", "are", "around", "asks", "changes", "does", "explains", "for"),
    *("here", "if", "in", "is", "names", "needs", "not", "of", "on", "or", "says", "that"),
    *("than", "to", "too", "unless", "where", "which", "with"),
}
"""Words after a flag that go on with the sentence."""


@contextmanager
def flags_named() -> Iterator[None]:
    """Let messages name options by their flags, for readers at a command line."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def worded(text: str) -> str:
    """Return a message as its reader knows the options in it. Messages are written with flags:
    these stay on a command line, and become arguments for a caller in Python.
    """
    return text if _ON_COMMAND_LINE.get() else _OPTION.sub(_as_argument, text)


def _as_argument(option: re.Match[str]) -> str:
    """Return a flag as an argument in Python: `header=False` for `--no-header`."""
    if option["command"]:
        return option[0]
    name, value = option["name"].replace("-", "_"), option["value"]
    # A switch such as --no-header has no value: a word after it goes on with the sentence.
    if name.startswith("no_"):
        return f"{name.removeprefix('no_')}=False" + (f" {value}" if value else "")
    if value is None:
        return name
    value = value.strip("'")  # what a shell would take for its own is quoted
    # The word after the flag is not its value, but goes on with the sentence.
    if value in _NO_VALUES:
        return f"{name} {value}"
    # Python quotes texts, but no numbers; placeholders such as FILE stay as they are.
    is_unquoted = value.isupper() or re.fullmatch(r"[\d_,.%]+", value) is not None
    return f"{name}={value}" if is_unquoted else f'{name}="{value}"'
