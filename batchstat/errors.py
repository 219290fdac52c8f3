"""Errors for the user. Everything raised on purpose derives from `BatchstatError`.

BatchstatError
├── OptionError   the arguments are wrong by themselves, whatever the input   exit code 2
├── InputError    no answer could be had from the input or the machine        exit code 3
│   └── SourceError   a file that could not be read, but might be at another attempt
└── StorageFullError     there is no space left for counts                           exit code 3
"""

import re
from collections.abc import Iterable
from reprlib import Repr
from typing import ClassVar

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
    """Return lines for a stream with everything escaped that a CI runner takes for a command.

    Line starts are known only here, as a screen may be wrapped anywhere. The escapes mean the same
    character in JSON, TOML and Python.
    """
    return _COMMAND_LINES.sub(r"\1\\u003a", _without_marks(text))


def _without_marks(text: str) -> str:
    return _COMMANDS.sub(r"#\\u0023", text)


class BatchstatError(Exception):
    """One line for the user: what is wrong, with the value, where, and what to do.

    Example:
        >>> try:
        ...     batchstat.profile("missing.txt")
        ... except batchstat.BatchstatError as error:
        ...     print(error)
        no such file: missing.txt
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str) -> None:
        """Escape the message, in which names may contain anything: see `printable`."""
        super().__init__(printable(message))


class OptionError(BatchstatError, ValueError):
    """An argument, parameter or setting that is wrong whatever the input.

    Example:
        >>> batchstat.Settings(batch_size=0)
        Traceback (most recent call last):
        batchstat.errors.OptionError: batch_size=0: must be between 1 and 2,147,483,647
    """

    exit_code = 2


class InputError(BatchstatError):
    """A file, folder, tokenizer or profile that gives no answer.

    Example:
        >>> batchstat.profile("missing.txt")
        Traceback (most recent call last):
        batchstat.errors.InputError: no such file: missing.txt
    """


class SourceError(InputError):
    """A file that is missing, cut short, damaged or unreachable: another attempt may succeed."""


class StorageFullError(BatchstatError):
    """No space is left for counts, nor will there be for later ones.

    Attributes:
        reason: the message without the remedy.
        remedy: what to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        """Compose the message from `reason` and `remedy` (what to do)."""
        super().__init__(f"{reason}: {remedy}")
        self.reason, self.remedy = printable(reason), remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.remedy)


class ColumnError(InputError):
    """A column that a file does not have."""


class NoBatchError(InputError):
    """Nothing of a corpus is left to batch."""

    def __init__(self) -> None:
        """Name everything that may have dropped all batches."""
        super().__init__(
            "no batches left: every batch was incomplete, or uneven over the ranks, and dropped "
            "(by drop_last, remainder=drop or the strategy's own rule): lower world_size, "
            "batch_size, samples_per_step or the multiple, or remove these options"
        )


def install_extra(name: str) -> str:
    """Return what to do if a library that an extra of batchstat installs is missing."""
    return f"run python -m pip install '.[{name}]' in a clone of batchstat"


def unknown(kind: str, value: str, known: Iterable[str]) -> OptionError:
    """Return an `OptionError` for a name that is not in `known`, with the nearest that is."""
    names = sorted(known)
    hint = f": {suggestion}" if (suggestion := did_you_mean(value, names)) else ""
    return OptionError(f"unknown {kind} {value!r}{hint} (known: {', '.join(names)})")


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest of `known` is meant; empty if none is near."""
    near = nearest(value, known)
    return "" if near is None else f"did you mean {near!r}?"


def nearest(value: str, known: Iterable[str]) -> str | None:
    """Return the shortest of `known` that begins with `value`, else the most similar if any is."""
    from difflib import get_close_matches

    names = list(known)
    longer = [name for name in names if value and name.startswith(value)]
    near = [min(longer, key=len)] if longer else get_close_matches(value, names, n=1, cutoff=0.5)
    return near[0] if near else None
