"""What a user can be told. Everything raised on purpose derives from `BatchstatError`.

BatchstatError
├── OptionError   the arguments are wrong by themselves, whatever the input   exit code 2
├── InputError    no answer could be had from the input or the machine        exit code 3
│   └── SourceError   a file that could not be read, as it may be at another try
└── FullError     no room is left for what is counted                         exit code 3
"""

import re
from collections.abc import Iterable
from reprlib import Repr
from typing import ClassVar

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_COMMANDS = re.compile(r"##(?=\w*\[)")
"""What Azure Pipelines, TeamCity and older GitHub runners take for a command anywhere in a line."""
_COMMAND_LINES = re.compile(r"(?m)^([^\S\n]*):(?=:)")
"""What GitHub Actions takes for a command: its runner trims the white space before it."""
_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def short(value: object) -> str:
    """The `repr` of any value, no longer than fits a message."""
    try:
        return _short.repr(value)
    except ValueError:
        return "a number of thousands of digits"


def printable(text: str) -> str:
    """Text that may hold the user's data, on one line: what moves a terminal's cursor and what a CI
    runner takes for a command, escaped.
    """
    return _without_marks(_CONTROLS.sub(lambda match: repr(match[0])[1:-1], text))


def without_commands(text: str) -> str:
    """Lines as they are written to a stream, none of which a CI runner takes for a command.

    Only here is it known where a line begins: a screen may be folded anywhere. The escapes mean the
    same character in JSON, TOML and Python.
    """
    return _COMMAND_LINES.sub(r"\1\\u003a", _without_marks(text))


def _without_marks(text: str) -> str:
    return _COMMANDS.sub(r"#\\u0023", text)


class BatchstatError(Exception):
    """One line for the user: what is wrong, with the value, where, and what to do."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str) -> None:
        """Names in the message may hold anything: see `printable`."""
        super().__init__(printable(message))


class OptionError(BatchstatError, ValueError):
    """An argument, parameter or setting that is wrong whatever the input."""

    exit_code = 2


class InputError(BatchstatError):
    """A file, folder, tokenizer or profile from which no answer can be had."""


class SourceError(InputError):
    """A file that is gone, cut short, damaged, or cannot be reached: another try may do better."""


class FullError(BatchstatError):
    """No room is left for what is counted, nor will be for what comes next.

    Attributes:
        reason: that, without what to do.
        remedy: what to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        """`remedy`: what to do."""
        super().__init__(f"{reason}: {remedy}")
        self.reason, self.remedy = printable(reason), remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.remedy)


class NoBatchError(InputError):
    """Nothing is left of a corpus to be batched."""

    def __init__(self) -> None:
        """It says what may have left all of it out."""
        super().__init__(
            "no batch is left: what fills none, or does not go round over all ranks, is left out, "
            "by drop_last, by tail=drop or by the strategy's own rule: lower world_size, "
            "batch_size or the multiple, or leave these out"
        )


def install_extra(name: str) -> str:
    """What to do where a library is missing that an extra of batchstat brings."""
    return f"run python -m pip install '.[{name}]' in a clone of batchstat"


def unknown(kind: str, value: str, known: Iterable[str]) -> OptionError:
    """An `OptionError` for a name that is not one of `known`, with the nearest that is."""
    names = sorted(known)
    hint = f": {suggestion}" if (suggestion := did_you_mean(value, names)) else ""
    return OptionError(f"unknown {kind} {value!r}{hint} (known: {', '.join(names)})")


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """The question whether the nearest of `known` is meant; empty where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(value, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else ""
